import type { IncomingMessage } from "node:http";
import { AppError } from "../platform/errors/app-error.ts";

/**
 * Why the body of this request cannot be read, by its Transfer-Encoding; undefined if it can. Node takes off the chunks and hands
 * over what is coded below them as if it were the body. RFC 9112, section 6.1: 501 for a coding that is not understood; section
 * 6.3: 400 where the last one is not chunked, because then nobody knows where the body ends.
 */
export function transferCodingProblem({ headers }: IncomingMessage): AppError | undefined {
  const codings = headers["transfer-encoding"];
  if (codings === undefined || codings === "chunked") return undefined;
  const [last, ...others] = codings
    .split(",")
    .map((coding) => coding.trim().toLowerCase())
    .reverse();
  if (last !== "chunked")
    return AppError.public("request.malformed", "Transfer-Encoding must end with chunked");
  if (others.length === 0) return undefined;
  const publicDetail = "the only supported transfer coding is chunked";
  const reason = `Transfer-Encoding: ${codings}`;
  return new AppError("request.transfer_coding_unsupported", { reason, publicDetail });
}
