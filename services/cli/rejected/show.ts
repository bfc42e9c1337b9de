import { EXIT } from "../../../shared/lifecycle/run-service.ts";
import type { RejectedDetail } from "../../../shared/operator/rejected.ts";
import { bodyText } from "../body.ts";
import type { ProgramDeps } from "../program-deps.ts";
import { facts, jsonLine } from "../text.ts";
import { type Operated, withOperations } from "../with-operations.ts";

export type ShowOptions = Operated & { json?: boolean };

/** `postern rejected show`: all that was kept of one refused request. 1 if it is unknown, or if several have such an id. */
export function showRejected(deps: ProgramDeps, id: string, options: ShowOptions): Promise<number> {
  return withOperations(deps, options, async ({ rejected }) => {
    const request = await rejected.show(id);
    deps.print(options.json ? jsonLine(request) : inWords(request));
    return EXIT.ok;
  });
}

function inWords(request: RejectedDetail): string {
  const { signature_headers: signatures, missed_before: missed, body_base64: body } = request;
  const known = facts([
    ["request", request.id],
    ["refused at", request.refused_at],
    ["endpoint", request.endpoint ?? "none has this path"],
    ["address", request.address],
    ["method", request.method],
    ["path", request.path],
    ["query", request.query_names.length > 0 ? request.query_names.join(", ") : undefined],
    ["code", request.code],
    ["reason", request.reason],
    ["credential headers came", namesIn(signatures.came)],
    ["and wanted", namesIn(signatures.wanted)],
    ["headers", request.header_names.join(", ")],
    ["body", sizeOf(request)],
    ["before it", missed > 0 ? `${missed} more were refused here, and not kept` : undefined],
  ]);
  if (body === null) return known;
  return `${known}\nbody, or its beginning\n${bodyText(Buffer.from(body, "base64"), { full: true })}`;
}

function namesIn(names: readonly string[] | null): string | undefined {
  if (names === null) return undefined;
  return names.length === 0 ? "none" : names.join(", ");
}

function sizeOf({ bytes, body_base64: body }: RejectedDetail): string {
  const size = bytes === null ? "of unknown size" : `${bytes} bytes`;
  return body === null ? `${size}, not kept` : size;
}
