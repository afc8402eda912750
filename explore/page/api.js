// Requests to the explorer, below /explore/api/.

const base = new URL("api/", document.baseURI);

// APIError is an answer that is none: error, status and line are the server's.
export class APIError extends Error {
  constructor(message, status, line) {
    super(message);
    this.status = status;
    this.line = line;
  }
}

export async function call(method, path, body) {
  let answer;
  try {
    answer = await fetch(new URL(path, base), {
      method,
      headers: body === undefined ? {} : { "Content-Type": "application/json" },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch {
    throw new APIError("kshare does not answer. It may have been stopped: start it again and load this page anew.", 0);
  }
  if (answer.status === 204) return null;
  const text = await answer.text();
  let value;
  try {
    value = JSON.parse(text);
  } catch {
    throw new APIError(`kshare answered ${answer.status} without JSON: ${text.slice(0, 200)}`, answer.status);
  }
  if (!answer.ok) throw new APIError(value.error || `kshare answered ${answer.status}`, answer.status, value.line);
  return value;
}

export const get = (path) => call("GET", path);
export const post = (path, body = {}) => call("POST", path, body);
export const put = (path, body) => call("PUT", path, body);
export const streamURL = (id) => new URL(`sessions/${encodeURIComponent(id)}/stream`, base).href;

const once = new Map();
// cached asks once for what does not change.
export function cached(path) {
  if (!once.has(path)) {
    once.set(path, get(path).catch((err) => { once.delete(path); throw err; }));
  }
  return once.get(path);
}
