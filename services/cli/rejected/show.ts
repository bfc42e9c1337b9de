import type { RejectedDetail } from "../../../shared/console/rejected.ts";
import { EXIT } from "../../../shared/platform/lifecycle/run-service.ts";
import { adviceFor } from "../../../shared/webhook-auth/advice.ts";
import { bodyText } from "../body.ts";
import type { ProgramDeps } from "../program-deps.ts";
import { counted, facts, jsonLine, withAge } from "../text.ts";
import { type OperationTarget, withOperations } from "../with-operations.ts";

export type ShowOptions = OperationTarget & { json?: boolean };

/**
 * `postern rejected show`: prints all stored data of one refused request. Exit code 1 if it is unknown, or if several
 * ids start with the given text.
 */
export function showRejected(deps: ProgramDeps, id: string, options: ShowOptions): Promise<number> {
  return withOperations(deps, options, async ({ getRejected }) => {
    const request = await getRejected({ rejected_id: id });
    deps.print(options.json ? jsonLine(request) : inWords(request));
    return EXIT.ok;
  });
}

function inWords(request: RejectedDetail): string {
  const { signature_headers: signatures, missed_before: missed, body_base64: body } = request;
  const known = facts([
    ["request", request.id],
    ["refused at", withAge(request.refused_at)],
    ["endpoint", request.endpoint ?? "not configured"],
    ["address", request.address],
    ["method", request.method],
    ["path", request.path],
    ["query parameters", request.query_names.length > 0 ? request.query_names.join(", ") : undefined],
    ["code", request.code],
    ["reason", request.reason],
    ["delivery id", request.delivery_id ?? undefined],
    ["advice", adviceFor(request)?.todo],
    ["credential found in", namesIn(signatures.came)],
    ["credential expected in", namesIn(signatures.wanted)],
    ["headers", request.header_names.join(", ")],
    ["body", sizeOf(request)],
    ["not kept", missed > 0 ? counted(missed, "earlier request") : undefined],
  ]);
  if (body === null) return known;
  return `${known}\nbody (at most its first 4 KiB)\n${bodyText(Buffer.from(body, "base64"), { full: true })}`;
}

function namesIn(names: readonly string[] | null): string | undefined {
  if (names === null) return undefined;
  return names.length === 0 ? "none" : names.join(", ");
}

function sizeOf({ bytes, body_base64: body }: RejectedDetail): string {
  const size = bytes === null ? "unknown size" : counted(bytes, "byte");
  return body === null ? `${size}, not kept` : size;
}
