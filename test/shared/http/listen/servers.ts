import type { IncomingMessage, ServerResponse } from "node:http";
import { readBody } from "../../../../shared/http/body.ts";
import { type Listening, listen } from "../../../../shared/http/listen.ts";
import { sendProblem } from "../../../../shared/http/problem.ts";
import { AppError, toAppError } from "../../../../shared/platform/errors/app-error.ts";
import { useEnds } from "../../../fixtures/ends.ts";

export type Handler = (req: IncomingMessage, res: ServerResponse) => void;

/** A server that counts its open connections. */
export type TestServer = Listening & { now: number; seen: Set<unknown> };

/** Starts servers on real ports, with a short time limit for requests. */
export function useServers(): { serve(handler: Handler): Promise<TestServer> } {
  const ends = useEnds();
  return {
    async serve(handler) {
      const connections = { now: 0, seen: new Set<unknown>() };
      const counted: Handler = (req, res) => {
        if (!connections.seen.has(req.socket)) {
          connections.seen.add(req.socket);
          connections.now += 1;
          req.socket.once("close", () => {
            connections.now -= 1;
          });
        }
        handler(req, res);
      };
      const server = await listen(counted, "127.0.0.1:0", { requestTimeoutMs: 300 });
      ends.defer(() => server.close(0));
      return Object.assign(connections, server);
    },
  };
}

export const refuse: Handler = (req, res) =>
  sendProblem(req, res, new AppError("request.not_found", { reason: "nothing here" }));

export const echo: Handler = (req, res) => {
  readBody(req, res, 1000).then(
    (body) => res.end(body),
    (thrown: unknown) => sendProblem(req, res, toAppError(thrown)),
  );
};
