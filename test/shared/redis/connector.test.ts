import { writeFileSync } from "node:fs";
import { createServer, connect as dial } from "node:net";
import { join } from "node:path";
import { expect, test } from "vitest";
import { freePort } from "../../../shared/dev/free-port.ts";
import { startRedis } from "../../../shared/dev/redis.ts";
import { eventually } from "../../../shared/dev/wait.ts";
import { Secret } from "../../../shared/platform/crypto/secret.ts";
import { silentLogger } from "../../../shared/platform/log/logger.ts";
import { delay } from "../../../shared/platform/time/clock.ts";
import {
  connectBeside,
  connectForRequests,
  connectForWork,
  type Redis,
  type RedisTarget,
} from "../../../shared/redis/connect.ts";
import type { Login, PrimaryLookup, ServerAddress } from "../../../shared/redis/connector.ts";
import { DurableRedis } from "../../../shared/redis/durable.ts";
import { useEnds } from "../../fixtures/ends.ts";
import { useOwnRedis } from "../../fixtures/redis.ts";
import { MASTER_NAME, startSentinel } from "../../support/failover/topology.ts";
import { onlyInLongRun } from "../../support/long-run.ts";
import { recordingLog } from "../../support/recording-log.ts";
import { tempDir } from "../../support/temp-dir.ts";
import { TEST_TLS } from "../../support/tls.ts";

const ends = useEnds();
const redis = useOwnRedis();

const here = (port: number): ServerAddress => ({ host: "127.0.0.1", port });

/** Starts a server that accepts connections and sends nothing. Returns its port. */
async function startSilent(): Promise<number> {
  const server = createServer((socket) => void ends.defer(() => socket.destroy()));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  ends.defer(() => server.close());
  return (server.address() as { port: number }).port;
}

const sentinels = (ports: readonly number[], more: Partial<PrimaryLookup> = {}): PrimaryLookup => ({
  finder: { kind: "sentinels", servers: ports.map(here), masterName: MASTER_NAME, login: {} },
  ...more,
});

function open(target: RedisTarget, connect = connectForRequests) {
  const reasons: string[] = [];
  const connection = connect(target, silentLogger);
  connection.on("error", ({ message }: Error) => reasons.push(message));
  ends.defer(() => connection.disconnect());
  return { connection, reasons };
}

const isReady = (connection: Redis) => eventually("it is connected", () => connection.status === "ready");

async function watched(lines: readonly string[] = [], primary = redis.server.port) {
  const sentinel = await startSentinel(primary, lines);
  ends.defer(() => sentinel.kill("SIGKILL"));
  return sentinel;
}

test("without a majority of the sentinels no server counts as the primary, and each try says why; with one, the connection is made", async () => {
  const [one, silent, absent] = [await watched(), await startSilent(), await freePort()];
  const { connection, reasons } = open(sentinels([one.port, silent, absent]));
  await eventually("it has tried twice", () => reasons.length >= 2);
  expect(reasons[0]).toMatch(
    new RegExp(
      `^no majority of the sentinels names the primary \\(1 of 3 name 127\\.0\\.0\\.1:${redis.server.port}; .*${absent}: connect ECONNREFUSED`,
    ),
  );
  expect(reasons[0]).toContain(`127.0.0.1:${silent}: no answer within 1000 ms`);
  expect(connection.status).not.toBe("ready");

  const two = await watched();
  const { connection: other } = open(sentinels([one.port, silent, two.port]));
  await isReady(other);
});

test("a reconnect while sentinels are being asked succeeds, and a connection that is then closed ends", async () => {
  const silent = await startSilent();
  const { connection, reasons } = open(sentinels([silent]));
  for (let i = 0; i < 3; i++) {
    await eventually("it asks", () => connection.status === "connecting");
    connection.disconnect(true);
    await eventually("it has given up the look-up", () => connection.status !== "connecting");
  }
  expect(connection.status).not.toBe("end");
  await eventually("it asks", () => connection.status === "connecting");
  connection.disconnect();
  await eventually("it has ended", () => connection.status === "end");
  expect(reasons.filter((reason) => reason.includes("ended"))).toEqual([]);
});

test("a server that was named as the primary is not used if it is a replica or not ready in time, and each attempt reports why", async () => {
  const replica = await startRedis({
    env: process.env,
    dir: tempDir(),
    args: ["--replicaof", "127.0.0.1", String(redis.server.port)],
  });
  ends.defer(() => replica.stop());
  const sentinel = await watched();
  const silent = await startSilent();
  const named = `127.0.0.1:${redis.server.port}`;
  const mapped = (port: number) =>
    open(sentinels([sentinel.port], { natMap: { [named]: here(port) } }), connectForWork);
  const [toReplica, toSilent, toNowhere] = [mapped(replica.port), mapped(silent), mapped(70_000)];
  const untilReason = (reasons: readonly string[], reason: string) =>
    eventually(reason, () => reasons.includes(reason));
  await untilReason(
    toReplica.reasons,
    `127.0.0.1:${replica.port} was named as the primary, but is a replica`,
  );
  await untilReason(toSilent.reasons, `127.0.0.1:${silent} was not ready within 3000 ms`);
  await eventually("it tries again", () => toNowhere.reasons.length >= 2);
  expect(toNowhere.reasons[0]).toMatch(/port/i);
});

test("second connections and connections for work find the primary too, and commands of work wait for it", async () => {
  const sentinel = await watched();
  const { connection } = open(sentinels([sentinel.port]), connectForWork);
  const beside = connectBeside(connection, {});
  ends.defer(() => beside.disconnect());
  expect(await Promise.all([connection.ping(), beside.ping()])).toEqual(["PONG", "PONG"]);
});

test("a process is warned once of a failover, and of a Cluster that stops with any shard, but not with a single server", async () => {
  const node = await startRedis({
    env: process.env,
    dir: tempDir(),
    args: ["--cluster-enabled", "yes", "--cluster-port", String(await freePort())],
  });
  ends.defer(() => node.stop());
  const finder = { kind: "nodes", servers: [here(node.port)], key: "{any}" } as const;
  const { connection, reasons } = open({ finder });
  await eventually("no node has the slot", () =>
    reasons.some((reason) => /cluster_state is not ok/.test(reason)),
  );
  const direct = connectForWork({ url: new Secret(node.url) }, silentLogger);
  ends.defer(() => direct.disconnect());
  await direct.cluster("ADDSLOTSRANGE", 0, 16_383);
  await isReady(connection);

  const warnings = async (of: Redis): Promise<string[]> => {
    const log = recordingLog();
    const durable = new DurableRedis({ redis: of, mode: "strict", log, checkEveryMs: 20 });
    await durable.firstCheck;
    await delay(100);
    durable.stop();
    return log.events.map(({ event }) => event).filter((event) => event !== "redis.ready");
  };
  expect(await warnings(connection)).toEqual([
    "redis.unbounded",
    "redis.full_coverage",
    "redis.failover_unproven",
  ]);
  await direct.config("SET", "cluster-require-full-coverage", "no");
  expect(await warnings(connection)).toEqual(["redis.unbounded", "redis.failover_unproven"]);
  expect(await warnings(redis.client)).toEqual(["redis.unbounded"]);
});

const TLS = { ca: TEST_TLS.cert, cert: TEST_TLS.cert, key: new Secret(TEST_TLS.key) };
const WRONG = { password: new Secret("another") };
const LOGIN = { username: "app", password: new Secret("of-this-Redis") };
const APP = ["--user", LOGIN.username, "on", `>${LOGIN.password.reveal()}`, "+@all"];

const isOfCertificate = (reason: string) => /self.signed certificate/.test(reason);

/** Starts a primary and a sentinel that require TLS with a client certificate, and a password. */
async function startSecured() {
  const dir = tempDir();
  const certificate = (["cert", "key"] as const).map((name) => {
    const file = join(dir, `${name}.pem`);
    writeFileSync(file, TEST_TLS[name]);
    return [`tls-${name}-file`, file] as const;
  });
  const settings = (port: number): [string, string][] => [
    ...certificate.map(([name, file]): [string, string] => [name, file]),
    ...[
      ["tls-ca-cert-file", join(dir, "cert.pem")] as [string, string],
      ["tls-port", String(port)] as [string, string],
    ],
  ];
  const [ofPrimary, ofSentinel] = [await freePort(), await freePort()];
  const args = settings(ofPrimary);
  const primary = await startRedis({
    env: process.env,
    dir,
    args: [...args.flatMap(([name, value]) => [`--${name}`, String(value)]), ...APP],
  });
  ends.defer(() => primary.stop());
  const lines = [...settings(ofSentinel), ["requirepass", "of the sentinels"]];
  await watched(
    lines.map(([name, value]) => `${name} "${value}"`),
    primary.port,
  );
  return { primary, ofPrimary, ofSentinel };
}

onlyInLongRun(() => {
  test("TLS and logins of the sentinels and of the primary are separate, and each fault is reported with its reason", async () => {
    const { primary, ofPrimary, ofSentinel } = await startSecured();
    const login = { password: new Secret("of the sentinels"), tls: { ...TLS, serverName: "hooks.example" } };
    const target = (more: Partial<PrimaryLookup>, ofSentinels: Login = login): PrimaryLookup => ({
      ...{ ...LOGIN, tls: TLS, natMap: { [`127.0.0.1:${primary.port}`]: here(ofPrimary) } },
      finder: { kind: "sentinels", servers: [here(ofSentinel)], masterName: MASTER_NAME, login: ofSentinels },
      ...more,
    });
    const { connection } = open(target({}));
    await isReady(connection);
    const faults: [PrimaryLookup, RegExp][] = [
      [target({ tls: { ca: TLS.ca } }), /certificate required/],
      [target({ tls: { cert: TLS.cert, key: TLS.key } }), /self.signed certificate/],
      [target({ tls: { ...TLS, serverName: "other.test" } }), /other\.test.* is not in the cert's altnames/],
      [target(WRONG), /^WRONGPASS/],
      [target({}, { ...login, ...WRONG }), /^no majority .*WRONGPASS/],
      [target({}, { password: login.password }), /^no majority .*127\.0\.0\.1:\d+: /],
      [target({}, { ...login, tls: { ca: TLS.ca } }), /^no majority .*certificate required/],
    ];
    for (const [fault, reason] of faults) {
      const { reasons } = open(fault);
      await eventually(String(reason), () => reasons.some((each) => reason.test(each)));
    }
  });
});

/**
 * Starts a proxy that collects the server's certificate and its TLS alert, sends both in one write, and closes the
 * connection.
 */
async function startCuttingShort(port: number): Promise<number> {
  const server = createServer({ allowHalfOpen: true }, (client) => {
    const answers: Buffer[] = [];
    const upstream = dial({ port, host: "127.0.0.1", allowHalfOpen: true });
    for (const socket of [client, upstream]) {
      ends.defer(() => socket.destroy());
      socket.on("error", () => {});
    }
    client.once("data", (greeting) => upstream.end(greeting));
    upstream.on("data", (answer) => answers.push(answer));
    upstream.on("end", () => client.end(Buffer.concat(answers)));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  ends.defer(() => server.close());
  return (server.address() as { port: number }).port;
}

onlyInLongRun(() => {
  test("a TLS alert that follows a certificate error ends no process, on each kind of connection", async () => {
    const { primary, ofPrimary, ofSentinel } = await startSecured();
    const unhandled: unknown[] = [];
    const note = (error: unknown) => unhandled.push(error);
    process.on("uncaughtExceptionMonitor", note);
    ends.defer(() => void process.off("uncaughtExceptionMonitor", note));
    const [cutPrimary, cutSentinel] = [
      await startCuttingShort(ofPrimary),
      await startCuttingShort(ofSentinel),
    ];
    const untrusting = { cert: TLS.cert, key: TLS.key };
    const sentinel = await watched([], primary.port);
    const direct = { url: new Secret(`rediss://127.0.0.1:${cutPrimary}`), tls: untrusting };
    const natMap = { [`127.0.0.1:${primary.port}`]: here(cutPrimary) };
    const named = sentinels([sentinel.port], { tls: untrusting, natMap });
    const { finder } = sentinels([cutSentinel]);
    const asked = { finder: { ...finder, login: { tls: untrusting } } } as PrimaryLookup;
    const opened = [direct, named, asked].map((target) => open(target));
    const beside = connectBeside(open(direct).connection, {});
    ends.defer(() => beside.disconnect());
    const reasons: string[] = [];
    beside.on("error", ({ message }: Error) => reasons.push(message));
    for (const each of [...opened, { reasons }])
      await eventually("it has tried twice", () => each.reasons.filter(isOfCertificate).length >= 2);
    expect(unhandled).toEqual([]);
  });
});

test("a Unix socket can be used like a URL, with a separate login", async () => {
  const path = join(tempDir(), "redis.sock");
  const server = await startRedis({
    env: process.env,
    dir: tempDir(),
    args: ["--unixsocket", path, ...APP],
  });
  ends.defer(() => server.stop());
  const target = { url: new Secret(`unix://${path}`), ...LOGIN };
  const connection = connectForRequests(target, silentLogger);
  ends.defer(() => connection.disconnect());
  await isReady(connection);
  const beside = connectBeside(connection, {});
  ends.defer(() => beside.disconnect());
  await isReady(beside);
});
