import { keccak256Hex, toHex } from "../ethereum/encoding.ts";
import { type Solving, solveNow } from "./solve.ts";

/** A job on these inputs, for who will redeem its quote or pay with it. */
export type QuoteWanted = {
  serviceId: number;
  jobIndex: number;
  requester: string;
  inputs: Uint8Array;
  /** Of the engine's proof of work. */
  difficulty: number;
};

/** What asks a pricing engine over HTTP for a quote, its proof of work done: to be sent as JSON with POST, at once. */
export function askForQuote(wanted: QuoteWanted, solving: Solving): { path: string; body: string } {
  const { serviceId, jobIndex, requester, inputs, difficulty } = wanted;
  const { timestamp, proof } = solveNow({ serviceId: BigInt(serviceId), difficulty }, solving);
  const body = JSON.stringify({
    requester,
    inputs_hash: keccak256Hex(inputs),
    challenge_timestamp: String(timestamp),
    proof_of_work: toHex(proof),
  });
  return { path: `/pricing/jobs/${serviceId}/${jobIndex}/quote`, body };
}
