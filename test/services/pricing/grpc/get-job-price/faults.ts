import { status } from "@grpc/grpc-js";
import { NOW_SECS, type Wire } from "../../../../fixtures/pricing.ts";

type Fault = readonly [what: string, its: Partial<Wire>, code: status, details: RegExp];

const { INVALID_ARGUMENT, NOT_FOUND, UNAVAILABLE } = status;

/** Each way in which a request can be wrong, in the order in which it is found out. */
export const FAULTS: readonly Fault[] = [
  [
    "a requester of 19 bytes",
    { requester: Buffer.alloc(19, 1) },
    INVALID_ARGUMENT,
    /^requester: must be 20 bytes/,
  ],
  ["the zero address as requester", { requester: Buffer.alloc(20) }, INVALID_ARGUMENT, /^requester: is/],
  ["an inputs_hash of 31 bytes", { inputs_hash: Buffer.alloc(31) }, INVALID_ARGUMENT, /^inputs_hash: /],
  ["no timestamp", { challenge_timestamp: "0" }, INVALID_ARGUMENT, /^challenge_timestamp: is missing/],
  [
    "a timestamp 31 s old",
    { challenge_timestamp: String(NOW_SECS - 31) },
    INVALID_ARGUMENT,
    /^challenge_timestamp: /,
  ],
  [
    "a timestamp 31 s ahead",
    { challenge_timestamp: String(NOW_SECS + 31) },
    INVALID_ARGUMENT,
    /^challenge_timestamp: /,
  ],
  [
    "the largest timestamp",
    { challenge_timestamp: String(2n ** 64n - 1n) },
    INVALID_ARGUMENT,
    /^challenge_timestamp: /,
  ],
  ["a proof without work", { proof_of_work: Buffer.alloc(48) }, INVALID_ARGUMENT, /^proof_of_work: /],
  ["a wish for a TEE", { require_tee: true }, UNAVAILABLE, /^require_tee: /],
  [
    "a job without a price",
    { job_index: 300 },
    NOT_FOUND,
    /^No pricing configured for service 42 job index 300$/,
  ],
  ["a job index of 256", { job_index: 256 }, INVALID_ARGUMENT, /^job_index: /],
];
