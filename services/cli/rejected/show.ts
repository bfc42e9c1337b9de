import { EXIT } from "../../../shared/lifecycle/run-service.ts";
import { createRejectedList, type RejectedRequest } from "../../../shared/rejected/list.ts";
import { toIso } from "../../../shared/time/iso.ts";
import { bodyText } from "../body.ts";
import type { ProgramDeps } from "../program-deps.ts";
import { facts, jsonLine } from "../text.ts";
import { withRedis } from "../with-redis.ts";
import { toJson } from "./list.ts";

export type ShowOptions = { configDir: string; json?: boolean };

/** `postern rejected show`: all that was kept of one refused request. 1 if it is unknown, or if several have such an id. */
export function showRejected(deps: ProgramDeps, id: string, options: ShowOptions): Promise<number> {
  return withRedis(deps, options, async ({ partition }) => {
    const [request, ...others] = await createRejectedList(partition).find(id);
    if (request === undefined)
      throw new Error(`${id} is unknown: there was no such request, or newer ones have taken its place`);
    if (others.length > 0)
      throw new Error(
        `${id} is ambiguous: the ids of ${others.length + 1} requests begin so, as ${request.id}`,
      );
    deps.print(
      options.json ? jsonLine({ ...toJson(request), body_base64: request.body ?? null }) : inWords(request),
    );
    return EXIT.ok;
  });
}

function inWords(request: RejectedRequest): string {
  const { id, at, endpoint, address, method, path, query, code, reason, headers, missed, body } = request;
  const known = facts([
    ["request", id],
    ["refused at", toIso(at)],
    ["endpoint", endpoint ?? "none has this path"],
    ["address", address],
    ["method", method],
    ["path", path],
    ["query", query.length > 0 ? query.join(", ") : undefined],
    ["code", code],
    ["reason", reason],
    ["credential headers came", signatures(request.came)],
    ["and wanted", signatures(request.wanted)],
    ["headers", headers.join(", ")],
    ["body", sizeOf(request)],
    ["before it", missed > 0 ? `${missed} more were refused here, and not kept` : undefined],
  ]);
  if (body === undefined) return known;
  return `${known}\nbody, or its beginning\n${bodyText(Buffer.from(body, "base64"), { full: true })}`;
}

function signatures(names: readonly string[] | undefined): string | undefined {
  return names?.length === 0 ? "none" : names?.join(", ");
}

function sizeOf({ bytes, body }: RejectedRequest): string {
  const size = bytes === undefined ? "of unknown size" : `${bytes} bytes`;
  return body === undefined ? `${size}, not kept` : size;
}
