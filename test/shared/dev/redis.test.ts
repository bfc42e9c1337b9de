import { existsSync } from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import { expect, test } from "vitest";
import { findRedisServer, type PrivateRedis, provideRedis, startRedis } from "../../../shared/dev/redis.ts";
import { Secret } from "../../../shared/platform/crypto/secret.ts";
import { silentLogger } from "../../../shared/platform/log/logger.ts";
import { connectForWork } from "../../../shared/redis/connect.ts";
import { readServerState } from "../../../shared/redis/server-state.ts";
import { useEnds } from "../../fixtures/ends.ts";
import { tempDir } from "../../support/temp-dir.ts";

const ends = useEnds();

async function start(options: { dir?: string; port?: number; args?: string[] } = {}): Promise<PrivateRedis> {
  const redis = await startRedis({ env: process.env, ...options });
  ends.defer(() => redis.stop());
  return redis;
}

/** Sends a command, and resolves with the first line of the reply. */
function ask(port: number, command: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, "127.0.0.1", () => socket.write(`${command}\r\n`));
    socket.once("data", (reply) => {
      socket.destroy();
      resolve(reply.toString());
    });
    socket.once("error", reject);
  });
}

test("a private Redis passes the check of the strict mode", async () => {
  const { url } = await start();
  const client = connectForWork({ url: new Secret(url) }, silentLogger);
  ends.defer(() => client.disconnect());
  expect((await readServerState(client, "strict")).proof).toBe("always");
  expect(await client.config("GET", "bind")).toEqual(["bind", "127.0.0.1"]);
});

test("what was written to a private Redis before SIGKILL is there after a restart, at the same address", async () => {
  const redis = await start();
  await ask(redis.port, "SET kept yes");
  const before = redis.pid;
  expect((await redis.kill("SIGKILL")).signal).toBe("SIGKILL");
  await redis.restart();
  expect(redis.pid).not.toBe(before);
  expect(await ask(redis.port, "GET kept")).toBe("$3\r\nyes\r\n");
});

test("a restart of a running private Redis ends the old one first and keeps its data", async () => {
  const redis = await start();
  await ask(redis.port, "SET kept yes");
  await redis.restart();
  expect(await ask(redis.port, "GET kept")).toBe("$3\r\nyes\r\n");
});

test("a private Redis that may not end yet, because it writes its first append-only file, ends once it has", async () => {
  const redis = await start({ args: ["--appendonly", "no", "--rdb-key-save-delay", "300000"] });
  await ask(redis.port, "MSET a 1 b 2");
  await ask(redis.port, "CONFIG SET appendonly yes");
  await redis.stop();
  expect(await redis.exit).toEqual({ code: 0, signal: null });
});

test("a private Redis on a port that another server holds is refused with Redis' complaint", async () => {
  const { port } = await start();
  await expect(startRedis({ env: process.env, port })).rejects.toThrow(/already in use/i);
});

test("a private Redis that is stopped removes the folder it made and leaves the one it was given", async () => {
  const [own, given] = [await startRedis({ env: process.env }), join(tempDir(), "redis")];
  await own.stop();
  expect(existsSync(own.dir)).toBe(false);
  await (await startRedis({ env: process.env, dir: given })).stop();
  expect(existsSync(given)).toBe(true);
});

test("a setting that a private Redis refuses is reported with Redis' own words", async () => {
  await expect(startRedis({ env: process.env, args: ["--no-such-setting", "1"] })).rejects.toThrow(
    /no-such-setting/,
  );
});

test("where no Redis server is installed and none may be, the error says what to run", () => {
  const env = { PATH: tempDir(), POSTERN_NO_INSTALL: "1" };
  expect(() => findRedisServer(env)).toThrow(
    /apt-get install -y redis-server[\s\S]*brew install[\s\S]*REDIS_URL/,
  );
});

test("the Redis of REDIS_URL is used as it stands, and none is started", async () => {
  const provided = await provideRedis({ env: { REDIS_URL: "redis://elsewhere:6379/3" } });
  expect(provided).toEqual({ url: "redis://elsewhere:6379/3" });
});
