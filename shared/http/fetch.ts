import { Agent, type Dispatcher, request } from "undici";
import { createConnector } from "./connector.ts";

const agent = new Agent({ connect: createConnector({}) });

type Options = {
  method?: Dispatcher.HttpMethod;
  headers?: Readonly<Record<string, string>>;
  body?: string | Uint8Array;
  /** No redirect is followed: it is an error, or an answer like any other. */
  redirect: "error" | "manual";
  /** Ends the request, and the reading of its answer. */
  signal?: AbortSignal;
};

/** The body must be read, or destroyed. */
export type Response = Pick<Dispatcher.ResponseData, "body"> & { status: number; headers: Headers };

/**
 * One request on a connection that skips informational responses. It is not undici's `fetch`, which holds `signal` by a weak reference:
 * after a garbage collection no deadline would end it.
 */
export async function fetch(url: URL | string, { redirect, ...options }: Options): Promise<Response> {
  const { statusCode: status, headers, body } = await request(url, { ...options, dispatcher: agent });
  body.on("error", () => {}); // the reader gets it; without one it would end the process
  if (redirect === "error" && status >= 300 && status < 400 && headers["location"] !== undefined) {
    body.destroy();
    throw new Error(`the answer is a redirect (${status}), which is not followed`);
  }
  const fields = Object.entries(headers).flatMap(([name, values = []]) =>
    [values].flat().map((value): [string, string] => [name, value]),
  );
  return { status, headers: new Headers(fields), body };
}
