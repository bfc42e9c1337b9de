import { INPUT_BYTES_MAX, mismatchIn } from "../../../shared/platform/json-schema/job-input.ts";
import { compileSchema, type Mismatch } from "../../../shared/platform/json-schema/json-schema.ts";
import { runBounded } from "../../../shared/platform/json-schema/run-bounded.ts";
import { type Answer, get } from "../http.ts";
import { PayFailure } from "./purchase.ts";

const COMPILE_MS = 1000;

/**
 * Throws PayFailure if the job at this URL publishes an input schema that the body does not match. A schema that cannot
 * be fetched or read does not stop the purchase, because the gateway checks the body itself.
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

/** Compares the body with the schema. A stranger wrote the schema, so there is a time limit on compiling it. */
function mismatchWith({ status, headers, json }: Answer, body: Uint8Array): Mismatch | undefined {
  const isSchema = headers.get("content-type")?.startsWith("application/schema+json");
  if (status !== 200 || !isSchema || JSON.stringify(json).length > INPUT_BYTES_MAX) return undefined;
  const compiled = runBounded(() => compileSchema(json), COMPILE_MS);
  return compiled?.ok ? mismatchIn(body, compiled.check) : undefined;
}
