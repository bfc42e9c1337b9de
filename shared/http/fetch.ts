import { Agent, type Dispatcher, request } from "undici";
import { createConnector } from "./connector.ts";

const agent = new Agent({ connect: createConnector({}) });

type Options = {
  method?: Dispatcher.HttpMethod;
  headers?: Readonly<Record<string, string>>;
  body?: string | Uint8Array;
  /** Redirects are never followed: `error` rejects, `manual` returns the answer. */
  redirect: "error" | "manual";
  /** Ends the request and the reading of its answer. */
  signal?: AbortSignal;
};

/** Answer of a request. The caller must read or destroy the body. */
export type Response = Pick<Dispatcher.ResponseData, "body"> & { status: number; headers: Headers };

/**
 * Sends one request on a connection that skips informational responses. undici's `fetch` is not used because it holds
 * `signal` by a weak reference. After a garbage collection, the deadline would no longer end the request.
 */
export async function fetch(url: URL | string, { redirect, ...options }: Options): Promise<Response> {
  const { statusCode: status, headers, body } = await request(url, { ...options, dispatcher: agent });
  body.on("error", () => {}); // the reader of the body gets the error; without a listener it would end the process
  if (redirect === "error" && status >= 300 && status < 400 && headers["location"] !== undefined) {
    body.destroy();
    throw new Error(`the answer is a redirect (${status}), which is not followed`);
  }
  const fields = Object.entries(headers).flatMap(([name, values = []]) =>
    [values].flat().map((value): [string, string] => [name, value]),
  );
  return { status, headers: new Headers(fields), body };
}
