import type { IncomingMessage, ServerResponse } from "node:http";
import { readBody } from "../../../shared/http/body.ts";

export type ReadBody = (limitBytes: number) => Promise<Buffer>;

/** Reads the body when it is first asked for, under the limit it is asked for with; the same bytes from then on. */
export function readOnce(req: IncomingMessage, res: ServerResponse): ReadBody {
  let read: Promise<Buffer> | undefined;
  return (limitBytes) => {
    read ??= readBody(req, res, limitBytes);
    return read;
  };
}
