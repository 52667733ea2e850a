// Links: the part of an address after # holds the request, so that a link shows the same plan:
// #p=base64 of its JSON or, if that is long, #z=the same, deflated.

const toText = bytes => btoa(Array.from(bytes, byte => String.fromCharCode(byte)).join(''))
                            .replaceAll('+', '-')
                            .replaceAll('/', '_')
                            .replace(/=+$/, '');
const toBytes = text =>
    Uint8Array.from(atob(text.replaceAll('-', '+').replaceAll('_', '/')), c => c.charCodeAt(0));

async function through(stream, bytes) {
  return new Uint8Array(
      await new Response(new Blob([bytes]).stream().pipeThrough(stream)).arrayBuffer());
}

/** What stands behind # for an object. */
async function linkOf(object) {
  const bytes = new TextEncoder().encode(JSON.stringify(object));
  if (bytes.length < 300 || !window.CompressionStream) return 'p=' + toText(bytes);
  return 'z=' + toText(await through(new CompressionStream('deflate-raw'), bytes));
}

// A page inside a notebook's cell has no address of its own.
const hasAddress = location.protocol !== 'about:';

/** Puts a request into the page's address. */
async function setLink(request) {
  if (hasAddress) history.replaceState(null, '', '#' + await linkOf(request));
}

/**
 * Inverse of linkOf; null if the text is no such link. Also 2bw|4|8: schedule|stages|microbatches.
 */
async function fromLink(hash) {
  try {
    const text = decodeURIComponent(hash.replace(/^#/, ''));
    if (text.startsWith('p=')) return JSON.parse(new TextDecoder().decode(toBytes(text.slice(2))));
    if (text.startsWith('z='))
      return JSON.parse(new TextDecoder().decode(
          await through(new DecompressionStream('deflate-raw'), toBytes(text.slice(2)))));
    const [schedule, stages, microbatches, steps] = text.split('|');
    if (!stages) return null;
    return {
      schedule,
      stages: +stages,
      ...(microbatches ? {microbatches: +microbatches} : {}),
      ...(steps ? {steps: +steps} : {})
    };
  } catch (error) {
    return null;
  }
}
