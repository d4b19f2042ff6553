// Functions shared by the scripts of the page: elements, requests, and actions that take time.

export const at = (id) => document.getElementById(id);

/** Make an element with attributes and children; strings become text nodes, never markup. */
export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

export const seconds = (value) => `${value.toFixed(2)} s`;
export const percent = (value) => `${Math.round(100 * value)} %`;

/** The value of a variable of the style sheet, such as "--text". */
export const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** Call a function when a canvas must be drawn again: its size or the colours of the page changed. */
export function onLook(canvas, draw) {
  new ResizeObserver(draw).observe(canvas);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
}

/** What is wrong where no answer comes. */
export const UNREACHABLE = "The server does not answer. Check that espnet-diverse demo is still running.";

/** Send a request, and return the answer. */
export async function reach(path, options) {
  try {
    return await fetch(path, options);
  } catch {
    throw new Error(UNREACHABLE);
  }
}

/** Get an answer of the server in JSON. With a body, the request is a POST. */
export async function ask(path, choices, body) {
  const options = body === undefined ? {} : {method: "POST", headers: {"Content-Type": "application/octet-stream"}, body};
  const answer = await reach(`${path}?${new URLSearchParams(choices)}`, options);
  const content = await answer.json();
  if (!answer.ok) throw new Error(content.error.message);
  return content;
}

/** Run an action: show its name and the elapsed seconds, and its error if it fails. */
export async function work(what, status, error, buttons, action) {
  const began = Date.now();
  const update = () => { status.textContent = `${what} … ${Math.round((Date.now() - began) / 1000)} s`; };
  error.textContent = "";
  status.textContent = `${what} …`;
  const clock = setInterval(update, 1000);
  buttons.forEach((button) => { button.disabled = true; });
  try {
    await action();
    status.textContent = "";
  } catch (problem) {
    status.textContent = "";
    error.textContent = problem.message;
  } finally {
    clearInterval(clock);
    buttons.forEach((button) => { button.disabled = false; });
  }
}
