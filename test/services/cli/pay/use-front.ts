import {
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  request,
  type ServerResponse,
} from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { useEnds } from "../../../fixtures/ends.ts";
import type { Payments } from "../../../fixtures/payments.ts";

/** Answers a request to the front. `forward` resolves with the gateway's answer to it. */
export type Answering = (
  req: IncomingMessage,
  res: ServerResponse,
  forward: () => Promise<IncomingMessage>,
) => unknown;

export type Front = {
  /** `http://host:port`, the public address of the gateway. */
  readonly url: string;
  /** Replaces the default answer, which forwards the request, until the end of the test. */
  answer: Answering;
  /** The requests to the front, oldest first. */
  requests: { path: string; headers: IncomingHttpHeaders }[];
};

/**
 * Starts a server in front of a test's gateway, and makes it the gateway's `public_url`, so that buyers can sign in. The front can give
 * false answers.
 */
export function useFront(payments: Payments) {
  const ends = useEnds();
  return async (): Promise<Front> => {
    const requests: Front["requests"] = [];
    const server = createServer((req, res) => {
      requests.push({ path: req.url ?? "", headers: req.headers });
      const forward = () => forwardTo(payments.gateway.address, req);
      void Promise.resolve(front.answer(req, res, forward)).catch(() => res.destroy());
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    ends.defer(() => {
      server.closeAllConnections();
      server.close();
    });
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const front: Front = { url, requests, answer: honestly };
    await payments.restartGateway({ x402: { public_url: url } });
    return front;
  };
}

export const honestly: Answering = async (_req, res, forward) => relay(res, await forward());

export function relay(res: ServerResponse, answer: IncomingMessage): void {
  res.writeHead(answer.statusCode ?? 0, answer.headers);
  answer.pipe(res);
}

/** Changes JSON members and headers of the gateway's answer. */
export async function changed(
  res: ServerResponse,
  answer: IncomingMessage,
  { members = {}, headers = {} }: { members?: object; headers?: Record<string, string> },
): Promise<void> {
  const json = JSON.stringify({ ...JSON.parse(await text(answer)), ...members });
  const { "content-length": _, ...told } = answer.headers;
  res.writeHead(answer.statusCode ?? 0, { ...told, ...headers }).end(json);
}

function forwardTo(address: string, req: IncomingMessage): Promise<IncomingMessage> {
  const { method, url: path, headers } = req;
  return new Promise((resolve, reject) => {
    const forwarded = request(`http://${address}`, { method, path, headers }, resolve);
    forwarded.on("error", reject);
    req.on("close", () => req.complete || forwarded.destroy());
    req.pipe(forwarded);
  });
}
