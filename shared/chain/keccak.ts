import { keccak_256 } from "@noble/hashes/sha3.js";
import { createKeccak } from "hash-wasm";

/**
 * Hasher in WebAssembly. It takes 3 ms for a MiB. JavaScript takes 57 ms, so a large body from a stranger would block the event
 * loop. Until WebAssembly has compiled, JavaScript computes the hashes. This is fast enough, because this program hashes only
 * short inputs while it starts.
 */
let compiled: Awaited<ReturnType<typeof createKeccak>> | undefined;
createKeccak(256).then(
  (hasher) => {
    compiled = hasher;
  },
  () => {}, // without WebAssembly, hashing is only slower
);

/** Keccak-256, as Ethereum uses it: 32 bytes. */
export function keccak256(bytes: Uint8Array): Uint8Array {
  return compiled?.init().update(bytes).digest("binary") ?? keccak_256(bytes);
}
