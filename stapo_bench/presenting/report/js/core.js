"use strict";
// Small tools. All text from runs enters the page through make(), as text nodes: never as HTML.

const byId = (id) => document.getElementById(id);

/** An element with attributes and children; strings become text. */
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "onclick") element.addEventListener("click", value);
    else if (value !== null && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null));
  return element;
}

const island = (name) => JSON.parse(byId(`data-${name}`).textContent);

function bytesOf(base64) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(base64); // browsers since 2025
  const characters = atob(base64);
  const bytes = new Uint8Array(characters.length);
  for (let i = 0; i < bytes.length; i++) bytes[i] = characters.charCodeAt(i);
  return bytes;
}

/** What was packed: base64 of gzip of JSON. */
async function inflate(base64) {
  const stream = new Blob([bytesOf(base64)]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

/** A packed chunk of the page. The last few dozen are kept. */
const unpack = (() => {
  const most = 48;
  const known = new Map();
  return (id) => {
    const found = known.get(id) ?? inflate(byId(id).textContent);
    known.delete(id);
    known.set(id, found); // the latest stands last
    if (known.size > most) known.delete(known.keys().next().value);
    return found;
  };
})();

/** Control and direction characters that a reader would not see, or that would reorder what he sees. */
const INVISIBLE = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]/g;

/** Text as nodes, with invisible characters spelled out (U+202E). */
function visible(text) {
  const parts = [];
  let end = 0;
  for (const match of text.matchAll(INVISIBLE)) {
    parts.push(text.slice(end, match.index));
    const code = match[0].charCodeAt(0).toString(16).toUpperCase().padStart(4, "0");
    parts.push(make("span", { class: "control-character" }, `U+${code}`));
    end = match.index + 1;
  }
  parts.push(text.slice(end));
  return parts.filter((part) => part !== "");
}

/** A value of one line, apart from the direction of what stands around it. */
const value = (text) => make("bdi", { class: "value" }, ...visible(text));

function toast(text) {
  const place = byId("toast");
  place.textContent = text;
  place.classList.add("shown");
  clearTimeout(toast.timer);
  toast.timer = setTimeout(() => place.classList.remove("shown"), 1800);
}

async function copy(text, what) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // Pages from disk may lack the clipboard: the old way.
    const area = make("textarea", { "aria-hidden": "true" });
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
  toast(`${what} copied`);
}

const stored = {
  get: (name) => {
    try {
      return sessionStorage.getItem(name);
    } catch {
      return null;
    }
  },
  set: (name, text) => {
    try {
      sessionStorage.setItem(name, text);
    } catch {
      // a page from disk may have no storage: nothing is lost but comfort
    }
  },
};
