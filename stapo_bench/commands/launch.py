"""``launch``: the files that start evaluations on clusters, as they come with the package."""

from pathlib import Path

import click

from stapo_bench.errors import UsageError, did_you_mean


@click.command()
@click.argument("name", required=False)
def launch(name: str | None) -> None:
    """Print a launch file for SLURM, Ray or vLLM's servers, to be saved and changed; without NAME, list them.

    Example: stapo-bench launch eval_array > eval_array.sh && sbatch --array=0-15 eval_array.sh --ckpt PATH --out RUN
    """
    from stapo_bench.tasks import resource_dir

    files = {path.stem: path for path in sorted(resource_dir("launch").glob("*.sh"))}
    if name is None:
        for known, path in files.items():
            click.echo(f"{known:<12} {purpose(path)}")
        return
    if name.removesuffix(".sh") not in files:
        hint = did_you_mean(name, files)
        raise UsageError(f"launch: expected one of {', '.join(files)}, got {name!r}" + (f"; {hint}" if hint else ""))
    click.echo(files[name.removesuffix(".sh")].read_text(encoding="utf-8"), nl=False)


def purpose(path: Path) -> str:
    """The first sentence of a launch file's comment."""
    lines = [line[2:].strip() for line in path.read_text(encoding="utf-8").splitlines() if line.startswith("# ")]
    return " ".join(lines).partition(". ")[0].partition(": ")[0]
