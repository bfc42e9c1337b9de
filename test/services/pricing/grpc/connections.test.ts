import { execFile } from "node:child_process";
import { once } from "node:events";
import { type ClientHttp2Session, type ClientHttp2Stream, connect } from "node:http2";
import { type AddressInfo, createServer } from "node:net";
import { promisify } from "node:util";
import { status } from "@grpc/grpc-js";
import { expect, test } from "vitest";
import { listenGrpc } from "../../../../services/pricing/grpc.ts";
import { AppError } from "../../../../shared/platform/errors/app-error.ts";
import { ENGINE, usePricing, wireRequest } from "../../../fixtures/pricing.ts";
import { FROM_SOURCE } from "../../../support/from-source.ts";
import { onlyInLongRun } from "../../../support/long-run.ts";

const pricing = usePricing();

const STREAMS_MAX = 100;

/** Opens a call whose request never arrives. */
function hold(session: ClientHttp2Session): ClientHttp2Stream {
  const headers = { "content-type": "application/grpc", te: "trailers" };
  const call = session.request({ ":method": "POST", ":path": `/${ENGINE}/GetJobPrice`, ...headers });
  return call.on("error", () => {});
}

async function connected(address: string): Promise<ClientHttp2Session> {
  const session = connect(`http://${address}`);
  await once(session, "remoteSettings");
  return session;
}

test("a client that opens more streams than one connection may have does not delay another client's quotes", async () => {
  const engine = await pricing.engine();
  const session = await connected(engine.grpc.address);
  expect(session.remoteSettings.maxConcurrentStreams).toBe(STREAMS_MAX);
  const held = Array.from({ length: STREAMS_MAX + 50 }, () => hold(session));
  expect(await engine.ask(wireRequest())).toMatchObject({ code: status.OK });
  expect(held.filter(({ closed }) => closed)).toEqual([]);
  session.destroy();
});

test("a connection whose requests do not end is closed after its maximum age and grace period", async () => {
  const ask = () => Promise.reject(new AppError("internal.unexpected", { reason: "nothing is asked here" }));
  const limits = { "grpc.max_connection_age_ms": 100, "grpc.max_connection_age_grace_ms": 100 };
  const grpc = await listenGrpc("127.0.0.1:0", { ask, isReady: () => true, limits });
  const session = await connected(grpc.address);
  const held = Array.from({ length: STREAMS_MAX + 50 }, () => hold(session));
  held[0]?.write(Buffer.alloc(5));
  await Promise.all([session, ...held].map((each) => new Promise((resolve) => each.on("close", resolve))));
  await grpc.close(0);
});

onlyInLongRun(() => {
  test("a process whose engine cannot listen for gRPC still ends", async () => {
    const taken = createServer().listen(0, "127.0.0.1");
    await once(taken, "listening");
    const address = `127.0.0.1:${(taken.address() as AddressInfo).port}`;
    const module = new URL("../../../../services/pricing/grpc.ts", import.meta.url);
    const program = `import { listenGrpc } from "${module}";
      await listenGrpc("${address}", { isReady: () => true }).catch(({ code }) => console.log(code));`;
    const args = [...FROM_SOURCE, "--input-type=module", "-e", program];
    const { stdout } = await promisify(execFile)(process.execPath, args, { timeout: 15_000 });
    expect(stdout).toBe("start.address_unavailable\n");
    taken.close();
  });
});
