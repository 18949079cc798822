"""Our objectives inside other trainers. Each module needs the package that it is named after."""
