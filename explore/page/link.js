// A script as part of a link: behind the # of the address, which browsers send to nobody.

const MAX_LINK = 16 << 20; // bytes of a script that is unpacked

const toText = (bytes) => btoa(Array.from(bytes, (b) => String.fromCharCode(b)).join("")).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");
const toBytes = (text) => Uint8Array.from(atob(text.replace(/-/g, "+").replace(/_/g, "/")), (c) => c.charCodeAt(0));

async function through(bytes, stream) {
  const reader = new Blob([bytes]).stream().pipeThrough(stream).getReader();
  const parts = [];
  for (let n = 0; ;) {
    const { done, value } = await reader.read();
    if (done) break;
    n += value.length;
    if (n > MAX_LINK) throw new Error("The script of this link is too long.");
    parts.push(value);
  }
  return new Uint8Array(await new Blob(parts).arrayBuffer());
}

// encode gives what stands behind #: s= and the text, or z= and the text made shorter, whichever is less.
export async function encode(script) {
  const bytes = new TextEncoder().encode(script);
  const plain = "s=" + toText(bytes);
  if (bytes.length < 200) return plain;
  const packed = "z=" + toText(await through(bytes, new CompressionStream("deflate-raw")));
  return packed.length < plain.length ? packed : plain;
}

// decode gives {script}, {tour} or null where there is nothing.
export async function decode(hash) {
  const text = hash.replace(/^#/, "");
  const value = text.slice(2);
  try {
    if (text.startsWith("tour=")) return { tour: decodeURIComponent(text.slice(5)) };
    if (text === "live") return { live: true };
    if (text.startsWith("s=")) return { script: new TextDecoder("utf-8", { fatal: true }).decode(toBytes(value)) };
    if (text.startsWith("z=")) return { script: new TextDecoder("utf-8", { fatal: true }).decode(await through(toBytes(value), new DecompressionStream("deflate-raw"))) };
  } catch (err) {
    throw new Error("The script of this link is damaged: a part of it may be missing. " + (err.message || ""));
  }
  return null;
}
