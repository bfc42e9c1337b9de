import { INPUT_BYTES_MAX, mismatchIn } from "../../../shared/platform/json-schema/job-input.ts";
import { compileSchema, type Mismatch } from "../../../shared/platform/json-schema/json-schema.ts";
import { runBounded } from "../../../shared/platform/json-schema/run-bounded.ts";
import { type Answer, get } from "../http.ts";
import { PayFailure } from "./purchase.ts";

const COMPILE_MS = 1000;

/**
 * Throws PayFailure if the job publishes an input schema that the body does not match. The check runs before the
 * payment, so that the payer does not sign for a request that the gateway would refuse. If the schema cannot be fetched
 * or read, the purchase continues, because the gateway checks the body too.
 */
export async function requireMatchingBody(
  url: URL,
  body: Uint8Array | undefined,
  deadline: number,
): Promise<void> {
  if (!/\/x402\/jobs\/\d+\/\d+$/.test(url.pathname)) return;
  const schemaUrl = new URL(url);
  schemaUrl.pathname += "/schema";
  const answer = await get(schemaUrl, deadline).catch(() => undefined);
  const mismatch = answer && mismatchWith(answer, body ?? new Uint8Array());
  if (mismatch === undefined) return;
  const reason = `the body does not match the job's input schema: ${mismatch.pointer} ${mismatch.what}; nothing was signed`;
  throw new PayFailure("refused", { reason });
}

/**
 * Compares the body with the schema. The time to compile the schema is limited, because it comes from the seller and
 * could be made to take very long.
 */
function mismatchWith({ status, headers, json }: Answer, body: Uint8Array): Mismatch | undefined {
  const isSchema = headers.get("content-type")?.startsWith("application/schema+json");
  if (status !== 200 || !isSchema || JSON.stringify(json).length > INPUT_BYTES_MAX) return undefined;
  const compiled = runBounded(() => compileSchema(json), COMPILE_MS);
  return compiled?.ok ? mismatchIn(body, compiled.check) : undefined;
}
