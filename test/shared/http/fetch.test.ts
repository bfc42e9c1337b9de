import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { expect, test } from "vitest";
import { eventually } from "../../../shared/dev/wait.ts";
import { fetch } from "../../../shared/http/fetch.ts";
import { useEnds } from "../../fixtures/ends.ts";
import { onlyInLongRun } from "../../support/long-run.ts";

const ends = useEnds();

setFlagsFromString("--expose-gc");
const collectGarbage = runInNewContext("gc") as () => void;

async function serve(answer: RequestListener): Promise<string> {
  const server = createServer(answer).listen(0, "127.0.0.1");
  await new Promise((resolve) => server.once("listening", resolve));
  ends.defer(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/**
 * Runs garbage collections. Several turns are needed, because a weak reference keeps its target until the turn of the
 * event loop ends.
 */
async function collectUnreferenced(): Promise<void> {
  for (let turns = 0; turns < 3; turns++) {
    await new Promise(setImmediate);
    collectGarbage();
  }
}

onlyInLongRun(() => {
  test("the signal ends a request that has no answer yet, even after a garbage collection", async () => {
    let received = (): void => {};
    const isAsked = new Promise<void>((resolve) => {
      received = resolve;
    });
    const url = await serve(() => received());
    const { signal, abort } = abortable();
    const answer = fetch(url, { redirect: "error", signal }).then(String, String);
    await isAsked;
    await collectUnreferenced();
    abort();
    expect(await answer).toBe("Error: too late");
  });

  test("the signal ends a request whose answer is being read, even after a garbage collection", async () => {
    const url = await serve((_req, res) => void res.write("begun"));
    const { signal, abort } = abortable();
    const { body } = await fetch(url, { redirect: "error", signal });
    const chunks = body[Symbol.asyncIterator]();
    expect(Buffer.from((await chunks.next()).value ?? []).toString()).toBe("begun");
    const rest = chunks.next().then(String, String);
    await collectUnreferenced();
    abort();
    expect(await rest).toBe("Error: too late");
  });
});

test("a redirect is an error or an answer, and is never followed", async () => {
  const urls: unknown[] = [];
  const url = await serve((req, res) => {
    urls.push(req.url);
    res.writeHead(307, { Location: "/elsewhere" }).end();
  });
  await expect(fetch(url, { redirect: "error" })).rejects.toThrow("is a redirect (307)");
  const { status, body } = await fetch(url, { redirect: "manual" });
  expect([status, await body.text()]).toEqual([307, ""]);
  expect(urls).toEqual(["/", "/"]);
});

test("a body that is not read can be destroyed, and its connection closes", async () => {
  let open = 0;
  const url = await serve((req, res) => {
    open += 1;
    req.socket.once("close", () => {
      open -= 1;
    });
    res.write("begun");
  });
  const { body } = await fetch(url, { redirect: "error" });
  expect(open).toBe(1);
  body.destroy();
  await eventually("it is closed", () => open === 0);
});

function abortable() {
  const controller = new AbortController();
  return { signal: controller.signal, abort: () => controller.abort(new Error("too late")) };
}
