import type { IncomingMessage, ServerResponse } from "node:http";
import { AppError } from "../../shared/errors/app-error.ts";
import { readBody } from "../../shared/http/body.ts";

const BODY_BYTES_MAX = 1024 * 1024;

/** The JSON of a request's body; an empty body is undefined. Throws `request.malformed`. */
export async function readJson(req: IncomingMessage, res: ServerResponse): Promise<unknown> {
  const body = await readBody(req, res, BODY_BYTES_MAX);
  if (body.length === 0) return undefined;
  try {
    return JSON.parse(body.toString("utf8"));
  } catch (cause) {
    throw new AppError("request.malformed", {
      reason: "the body is no JSON",
      publicDetail: "the body is no JSON",
      cause,
    });
  }
}
