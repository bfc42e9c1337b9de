import type { IncomingMessage } from "node:http";
import { AppError } from "../platform/errors/app-error.ts";

/**
 * Returns the error of a body that cannot be read because of its Transfer-Encoding; undefined if it can be read. Node
 * removes only the chunking, and delivers bytes with other codings as if they were the body. An unknown coding gets 501
 * (RFC 9112, section 6.1). If the last coding is not chunked, the answer is 400 because the body's end is unknown
 * (section 6.3).
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
