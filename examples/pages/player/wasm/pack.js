// Run by the build: node pack.js MODULE.js MODULE.wasm SCRIPT.js. Makes one script of emscripten's
// two files. Compressed, the code is 40% as long; browsers and Node inflate it by themselves.
const fs = require("fs");
const zlib = require("zlib");

const [module_file, code_file, script_file] = process.argv.slice(2);
const code = zlib.gzipSync(fs.readFileSync(code_file), { level: 9 }).toString("base64");
const loader = `
async function plangradPlayer() {
  const code = Uint8Array.from(atob("${code}"), (letter) => letter.charCodeAt(0));
  const inflated = new Blob([code]).stream().pipeThrough(new DecompressionStream("gzip"));
  return plangradModule({ wasmBinary: await new Response(inflated).arrayBuffer() });
}
if (typeof module === "object") module.exports = plangradPlayer;
`;
fs.writeFileSync(script_file, fs.readFileSync(module_file, "utf8") + loader);
