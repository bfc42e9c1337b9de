import { createHash } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import { expect, test } from "vitest";
import { AppError, toAppError } from "../../../../shared/errors/app-error.ts";
import { readBody } from "../../../../shared/http/body.ts";
import { listen } from "../../../../shared/http/listen.ts";
import { sendProblem } from "../../../../shared/http/problem.ts";
import { useEnds } from "../../../fixtures/ends.ts";
import { send } from "../../../support/http.ts";

const ends = useEnds();
const MIB = 1024 * 1024;

async function serve(read: (req: IncomingMessage, res: ServerResponse) => Promise<string>): Promise<string> {
  const server = await listen((req, res) => {
    read(req, res).then(
      (text) => res.end(text),
      (thrown: unknown) => sendProblem(req, res, toAppError(thrown)),
    );
  }, "127.0.0.1:0");
  ends.defer(() => server.close(0));
  return server.address;
}

test("the bytes are seen as they arrive, in order, before the body is put together", async () => {
  const address = await serve(async (req, res) => {
    const hash = createHash("sha256");
    const body = await readBody(req, res, MIB, { onBytes: (bytes) => hash.update(bytes) });
    return String(hash.digest("hex") === createHash("sha256").update(body).digest("hex"));
  });
  const body = ["a", "b".repeat(100_000), "c", "d".repeat(5000)];
  expect((await send(address, { path: "/", body })).text).toBe("true");
});

test("what is thrown after the last byte refuses the body", async () => {
  const address = await serve((req, res) => {
    const onEnd = () => {
      throw AppError.public("webhook.credential_rejected", "unauthorized");
    };
    return readBody(req, res, MIB, { onEnd }).then(String);
  });
  expect((await send(address, { path: "/", body: "a webhook" })).status).toBe(401);
});
