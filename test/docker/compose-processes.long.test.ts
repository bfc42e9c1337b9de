import { spawnSync } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { spawnChild, waitUntilAnswers } from "../../shared/dev/child.ts";
import { freePort } from "../../shared/dev/free-port.ts";
import { type Part, startPart } from "../../shared/dev/process.ts";
import { findRedisServer } from "../../shared/dev/redis.ts";
import { untilReady, untilSelling } from "../../shared/dev/stack.ts";
import { eventually } from "../../shared/dev/wait.ts";
import { Secret } from "../../shared/platform/crypto/secret.ts";
import { silentLogger } from "../../shared/platform/log/logger.ts";
import { connectForWork, type Redis } from "../../shared/redis/connect.ts";
import { useDevnet } from "../fixtures/devnet.ts";
import { useEnds } from "../fixtures/ends.ts";
import { jsonLines } from "../fixtures/postern.ts";
import { denialsOf } from "../fixtures/redis.ts";
import { idIn, signOffer } from "../fixtures/x402.ts";
import { runHere } from "../services/cli/run-here.ts";
import { newPayer } from "../support/devnet.ts";
import { canConnect, send } from "../support/http.ts";
import { needs } from "../support/needs.ts";
import { type Nginx, startNginx } from "../support/nginx.ts";
import { tempDir } from "../support/temp-dir.ts";
import {
  compose,
  environmentOf,
  filledConfig,
  interpolated,
  ours,
  read,
  SECRET,
  services,
} from "./compose.ts";

const LOOKER = "user looker on nopass ~* &* +@all\n";

describe(
  "the processes of compose, with its files, users and nginx, at addresses of this machine",
  needs("nginx"),
  () => {
    const ends = useEnds();
    const devnet = useDevnet();
    const parts = new Map<string, Part>();
    const ports = new Map<string, number>();
    const lookers: Redis[] = [];
    let configDir: string;
    let nginx: Nginx;

    /**
     * Starts a Redis with compose's configuration file and users, plus a user that can read which commands were denied.
     */
    async function startRedis(name: string): Promise<void> {
      const dir = tempDir();
      const port = await freePort();
      const { source = "", target = "" } = services[name]?.configs?.[0] ?? {};
      const users = join(dir, "users.acl");
      writeFileSync(users, interpolated(compose.configs[source]?.content ?? "") + LOOKER);
      mkdirSync(join(dir, "data"));
      const text = read(`config/docker/${name}.conf`)
        .replace("dir /data", `dir ${dir}/data`)
        .replace(target, users)
        .replace("bind * -::*", `bind 127.0.0.1\nport ${port}`);
      writeFileSync(join(dir, "redis.conf"), text);
      const child = spawnChild({
        command: findRedisServer(process.env),
        args: [join(dir, "redis.conf")],
        env: process.env,
      });
      ends.defer(() => child.kill("SIGKILL"));
      await waitUntilAnswers(name, child, () => canConnect(port));
      const looker = connectForWork(
        { url: new Secret(`redis://looker:any@127.0.0.1:${port}`) },
        silentLogger,
      );
      ends.defer(() => looker.disconnect());
      lookers.push(looker);
      ports.set(name, port);
    }

    function environmentHere(name: string): Record<string, string> {
      const env = environmentOf(services[name] ?? { image: name, volumes: [] });
      if ("POSTERN_RPC_URL" in env) env["POSTERN_RPC_URL"] = devnet.rpcUrl;
      const url = new URL(env["POSTERN_REDIS_URL"] ?? "");
      env["POSTERN_REDIS_URL"] =
        `redis://${url.username}:${url.password}@127.0.0.1:${ports.get(url.hostname)}`;
      return env;
    }

    async function start(name: string): Promise<void> {
      const command = (services[name]?.command ?? []).map((word) => word.replace("/etc/postern", configDir));
      const listens = /^(?:webhooks|x402|operator)/.test(name) ? ["--bind-address", "127.0.0.1:0"] : [];
      const { REDIS_URL: _, ...env } = process.env;
      const args = [...command, ...listens, "--ops-address", "127.0.0.1:0"];
      const part = await startPart({ name, args, env: { ...env, ...environmentHere(name) } });
      ends.defer(() => part.kill("SIGKILL"));
      parts.set(name, part);
      await untilReady(part);
    }

    beforeAll(async () => {
      const runner = `127.0.0.1:${await freePort()}`;
      configDir = filledConfig(
        ["runner:8645", runner],
        ["0.0.0.0:8645", runner],
        ["172.31.119.10", "127.0.0.1"],
        ["https://facilitator.example.com", devnet.facilitatorUrl],
      );
      await Promise.all(["redis", "runner-redis"].map(startRedis));
      await Promise.all(ours.map(([name]) => start(name)));
      const addresses = (kind: string) => [1, 2].map((i) => String(parts.get(`${kind}-${i}`)?.address));
      nginx = await startNginx(addresses("webhooks"), addresses("x402"));
      ends.defer(() => nginx.stop());
    }, 120_000);

    /** Returns the call as the console's user sees it after its end. */
    async function ended(id: string): Promise<Record<string, unknown>> {
      const show = ["calls", "show", id, "--config-dir", configDir, "-o", "json"];
      return eventually(`${id} is injected`, async () => {
        const [call] = jsonLines(await runHere(show, environmentHere("operator")));
        return call?.["state"] === "injected" ? call : undefined;
      });
    }

    test("a webhook and a paid call get through nginx to the runner, and every Redis user has the rights it needs", async () => {
      const Authorization = `Bearer ${SECRET}`;
      const accepted = await send(nginx.address, {
        path: "/hooks/alerts",
        headers: { Authorization },
        body: "hello",
      });
      expect([accepted.status, accepted.text]).toEqual([202, expect.stringContaining("call_id")]);
      await ended(idIn(accepted));

      await Promise.all(["x402-1", "x402-2"].map((name) => untilSelling(parts.get(name) as Part)));
      const job = { path: "/x402/jobs/1/1", body: "hello" };
      const challenge = await send(nginx.address, job);
      expect([challenge.status, challenge.text]).toEqual([402, expect.anything()]);
      const headers = await signOffer(challenge, { payer: await newPayer(devnet) });
      const bought = await send(nginx.address, { ...job, headers });
      expect([bought.status, bought.text]).toEqual([202, expect.stringContaining("call_id")]);
      await ended(idIn(bought));

      for (const client of lookers) expect(await denialsOf({ client })).toEqual([]);
    });

    test("a changed configuration file adds an endpoint to both gateways without a restart of a process", async () => {
      const file = join(configDir, "webhooks.toml");
      const endpoint = `\n[[endpoints]]\npath = "/hooks/new"\njob_id = 1\nauth = "bearer"\nsecret = "env:POSTERN_ALERTS_TOKEN"\n`;
      writeFileSync(file, read("config/docker/postern/webhooks.toml") + endpoint);
      const headers = { Authorization: `Bearer ${SECRET}` };
      for (const name of ["webhooks-1", "webhooks-2"]) {
        const gateway = parts.get(name) as Part;
        await gateway.process.waitForEvent("config.reloaded");
        expect((await send(gateway.address, { path: "/hooks/new", headers, body: "hello" })).status).toBe(
          202,
        );
      }
    });

    test("a container's health check may ping its Redis without a login, and any other command needs a login", () => {
      const [, ...check] = services["redis"]?.healthcheck?.test ?? [];
      for (const port of ports.values()) {
        const run = (...words: string[]) =>
          spawnSync(String(check[0]), ["-p", String(port), ...words], { encoding: "utf8" });
        expect(run(...check.slice(1))).toMatchObject({ status: 0, stdout: "PONG\n" });
        for (const words of [
          ["-e", "flushall"],
          ["-e", "get", "{postern}:layout"],
          ["-e", "config", "get", "dir"],
        ])
          expect(run(...words)).toMatchObject({ status: 1, stderr: expect.stringContaining("NOPERM") });
      }
    });
  },
);
