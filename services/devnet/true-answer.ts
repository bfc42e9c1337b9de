import type { ServerResponse } from "node:http";
import { messageOf } from "../../shared/errors/app-error.ts";
import type { Facilitator, FacilitatorRequest } from "./facilitator.ts";
import type { Operation } from "./faults.ts";

export type Answer = { status: number; body: object };

/** What the facilitator answers when nothing is wrong with it: 500 when the SDK throws, as the reference server does. */
export async function trueAnswer(
  facilitator: Facilitator,
  on: Operation,
  request: FacilitatorRequest,
): Promise<Answer> {
  try {
    return { status: 200, body: await facilitator[on](request) };
  } catch (error) {
    return { status: 500, body: { error: messageOf(error) } };
  }
}

export function sendAnswer(res: ServerResponse, { status, body }: Answer): void {
  send(res, { status, contentType: "application/json", text: JSON.stringify(body) });
}

export type Plain = {
  status: number;
  contentType: string;
  text: string;
  headers?: Readonly<Record<string, string | number>>;
};

export function send(res: ServerResponse, { status, contentType, text, headers = {} }: Plain): void {
  res.writeHead(status, {
    "Content-Type": contentType,
    "Content-Length": Buffer.byteLength(text),
    ...headers,
  });
  res.end(text);
}
