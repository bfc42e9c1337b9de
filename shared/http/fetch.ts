import { Agent, type RequestInit, type Response, fetch as undiciFetch } from "undici";
import { createConnector } from "./connector.ts";

export type { Response };

const agent = new Agent({ connect: createConnector({}) });

/** A body is sent whole: the connector does not support streams. */
type Options = Omit<RequestInit, "body" | "dispatcher"> & { body?: string | Uint8Array };

/** The standard `fetch`, on connections that skip informational responses. */
export function fetch(url: URL | string, options: Options = {}): Promise<Response> {
  return undiciFetch(url, { ...options, dispatcher: agent });
}
