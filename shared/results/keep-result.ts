import { VERSIONS } from "../redis/version.ts";
import dropResultLua from "./drop-result.lua";
import keepResultLua from "./keep-result.lua";

export const RESULT = keepResultLua.replace("VERSIONS.result", String(VERSIONS.result));

/**
 * Lua that tells whoever watches a call that its state, progress or result has changed, for a script with a KEYS[1]. The id is an
 * expression of Lua; several ids are separated by spaces.
 */
export function tellChange(id: string): string {
  return `redis.call('PUBLISH', string.match(KEYS[1], '^[^:]*:') .. 'changes', ${id})`;
}

export const DROP_RESULT = dropResultLua;

/** How long results are kept, and how many bytes they may take. */
export type ResultLimits = {
  /** How long one is kept, if there is room. */
  resultMs: number;
  /** Of a longer body only that it was too long. */
  resultBytesMax: number;
  /** What all together may take. The oldest give way. */
  bytesMax: number;
};

export const RESULT_LIMITS: ResultLimits = {
  resultMs: 86_400_000,
  resultBytesMax: 256 * 1024,
  bytesMax: 256 * 1024 * 1024,
};
