import { keccak256 as hash } from "viem/utils";
import type { ShortJob } from "../router.ts";

/** Answers the Keccak-256 of the body. */
export const keccak256: ShortJob = {
  name: "keccak256",
  handler: ({ body }) => ({ json: { keccak256: hash(body) } }),
};
