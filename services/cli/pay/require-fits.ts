import { INPUT_BYTES_MAX, mismatchIn } from "../../../shared/platform/json-schema/job-input.ts";
import { compileSchema, type Mismatch } from "../../../shared/platform/json-schema/json-schema.ts";
import { runBounded } from "../../../shared/platform/json-schema/run-bounded.ts";
import { type Answer, get } from "../http.ts";
import { PayFailure } from "./purchase.ts";

const COMPILE_MS = 1000;

/**
 * Throws PayFailure if the job at this URL tells what it takes, and the body is something else. A schema that cannot be had or read is no
 * reason to buy nothing: the gateway checks the body itself.
 */
export async function requireFits(url: URL, body: Uint8Array | undefined, deadline: number): Promise<void> {
  if (!/\/x402\/jobs\/\d+\/\d+$/.test(url.pathname)) return;
  const schemaUrl = new URL(url);
  schemaUrl.pathname += "/schema";
  const answer = await get(schemaUrl, deadline).catch(() => undefined);
  const unfit = answer && mismatchWith(answer, body ?? new Uint8Array());
  if (unfit === undefined) return;
  const reason = `the body does not match the job's input schema: ${unfit.pointer} ${unfit.what}; nothing was signed`;
  throw new PayFailure("refused", { reason });
}

/** The schema is a stranger's, so that its compilation has to end too. */
function mismatchWith({ status, headers, json }: Answer, body: Uint8Array): Mismatch | undefined {
  const isSchema = headers.get("content-type")?.startsWith("application/schema+json");
  if (status !== 200 || !isSchema || JSON.stringify(json).length > INPUT_BYTES_MAX) return undefined;
  const compiled = runBounded(() => compileSchema(json), COMPILE_MS);
  return compiled?.ok ? mismatchIn(body, compiled.check) : undefined;
}
