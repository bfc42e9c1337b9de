import { keccak_256 } from "@noble/hashes/sha3.js";
import { createKeccak } from "hash-wasm";

/**
 * In WebAssembly a MiB takes 3 ms and not 57, in which nothing else would be done: strangers have bodies hashed. It has to be compiled
 * first, and what is hashed until then is short.
 */
let compiled: Awaited<ReturnType<typeof createKeccak>> | undefined;
createKeccak(256).then(
  (hasher) => {
    compiled = hasher;
  },
  () => {}, // without WebAssembly it is only slow
);

/** Keccak-256, as Ethereum uses it: 32 bytes. */
export function keccak256(bytes: Uint8Array): Uint8Array {
  return compiled?.init().update(bytes).digest("binary") ?? keccak_256(bytes);
}
