import { createHash } from "node:crypto";
import { EventEmitter, once } from "node:events";
import type { IncomingMessage, ServerResponse } from "node:http";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { expect, test } from "vitest";
import { eventually } from "../../../../shared/dev/wait.ts";
import { readBody } from "../../../../shared/http/body.ts";
import { listen } from "../../../../shared/http/listen.ts";
import { sendProblem } from "../../../../shared/http/problem.ts";
import { AppError, toAppError } from "../../../../shared/platform/errors/app-error.ts";
import { useEnds } from "../../../fixtures/ends.ts";
import { send } from "../../../support/http.ts";
import { onlyInLongRun } from "../../../support/long-run.ts";

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

test("onBytes receives the bytes in order as they arrive, before the body is complete", async () => {
  const address = await serve(async (req, res) => {
    const hash = createHash("sha256");
    const body = await readBody(req, res, MIB, { onBytes: (bytes) => hash.update(bytes) });
    return String(hash.digest("hex") === createHash("sha256").update(body).digest("hex"));
  });
  const body = ["a", "b".repeat(100_000), "c", "d".repeat(5000)];
  expect((await send(address, { path: "/", body })).text).toBe("true");
});

test("an error thrown by onEnd after the last byte refuses the body", async () => {
  const address = await serve((req, res) => {
    const onEnd = () => {
      throw AppError.public("webhook.credential_rejected", "unauthorized");
    };
    return readBody(req, res, MIB, { onEnd }).then(String);
  });
  expect((await send(address, { path: "/", body: "a webhook" })).status).toBe(401);
});

setFlagsFromString("--expose-gc");
const collect = runInNewContext("gc") as () => void;

onlyInLongRun(() => {
  test.each([
    ["one chunk", 20_000],
    ["many chunks", MIB],
  ])(
    "a body of %s is free as soon as its reader lets it go, though the request waits on",
    async (_, bytes) => {
      const bodies: WeakRef<Buffer>[] = [];
      const readAndLetGo = async (req: IncomingMessage, res: ServerResponse) =>
        void bodies.push(new WeakRef(await readBody(req, res, 2 * MIB)));
      const free = new EventEmitter();
      const address = await serve(async (req, res) => {
        await readAndLetGo(req, res);
        await once(free, "all");
        return "let go";
      });
      const answers = Array.from({ length: 10 }, () =>
        send(address, { path: "/", body: Buffer.alloc(bytes, "x") }),
      );
      await eventually("all are read", () => bodies.length === 10);
      await eventually("none is kept", () => {
        collect();
        return bodies.every((body) => body.deref() === undefined);
      });
      free.emit("all");
      for (const { text } of await Promise.all(answers)) expect(text).toBe("let go");
    },
  );
});
