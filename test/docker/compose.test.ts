import { spawnSync } from "node:child_process";
import { copyFileSync, existsSync, readFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { parse } from "yaml";
import { loadConfig } from "../../shared/config/config-dir.ts";
import { toRunnerRedis } from "../../shared/config/postern-toml.ts";
import { readOperator } from "../../shared/config/read-operator.ts";
import { readPostern } from "../../shared/config/read-postern.ts";
import { type Config, readWebhooks } from "../../shared/config/read-webhooks.ts";
import { createAddressList } from "../../shared/http/ip/address-list.ts";
import { useRedis } from "../fixtures/redis.ts";
import { tempDir } from "../support/temp-dir.ts";

type Service = {
  image: string;
  build?: string;
  command?: string[];
  volumes: string[];
  environment?: Record<string, string>;
  healthcheck?: { test: string[] };
  depends_on?: Record<string, { condition: string }>;
  ports?: string[];
  networks?: string[] | { default: { ipv4_address: string } };
  read_only?: boolean;
  security_opt?: string[];
  cap_drop?: string[];
  tmpfs?: string[];
};

const redis = useRedis();

const root = fileURLToPath(new URL("../..", import.meta.url));
const read = (path: string) => readFileSync(join(root, path), "utf8");
const compose = parse(read("docker-compose.yml"), { merge: true }) as {
  services: Record<string, Service>;
  networks: { default: { ipam: { config: Record<string, string>[] } } };
};
const { services } = compose;
const ours = Object.entries(services).filter(([, { build }]) => build !== undefined);
const dockerfile = read("Dockerfile").replaceAll("\\\n", " ").split("\n");
const finalStage = dockerfile.slice(dockerfile.findLastIndex((line) => line.startsWith("FROM ")));

test("compose runs a Redis, two gateways behind nginx, two producers, a console, and a runner with a Redis of its own", () => {
  const roles = Object.entries(services).map(
    ([name, { command }]) => `${name}: ${command?.[0] ?? "its own"}`,
  );
  expect(roles.sort()).toEqual([
    "nginx: its own",
    "operator: operator",
    "producer-1: producer",
    "producer-2: producer",
    "redis: redis-server",
    "runner-redis: redis-server",
    "runner: runner",
    "webhooks-1: webhooks",
    "webhooks-2: webhooks",
  ]);
});

test("every file that compose mounts exists", () => {
  const sources = Object.values(services).flatMap(({ volumes }) =>
    volumes.map((volume) => volume.split(":")[0] ?? ""),
  );
  const files = sources.filter((source) => source.startsWith("./"));
  expect(files).toHaveLength(13);
  expect(files.filter((file) => !existsSync(join(root, file)))).toEqual([]);
});

test("the console has the files of the gateways, so that it knows their endpoints", () => {
  const mounted = (name: string) => services[name]?.volumes ?? [];
  expect(mounted("webhooks-1")).not.toEqual([]);
  expect(mounted("operator")).toEqual(expect.arrayContaining(mounted("webhooks-1")));
});

test("compose gives every process of ours a command that the program has, with options that it takes", () => {
  for (const [name, { command = [] }] of ours) {
    const [subcommand = "", ...rest] = command;
    const help = spawnSync(process.execPath, ["dist/services/cli/main.js", subcommand, "--help"], {
      cwd: root,
    });
    expect(help.status, name).toBe(0);
    for (const option of rest.filter((word) => word.startsWith("--"))) {
      expect(String(help.stdout), name).toContain(option);
    }
  }
});

test("compose gives each process a valid configuration, and endpoints to gateways alone", () => {
  for (const [name, service] of ours) {
    const [command] = service.command ?? [];
    if (command === "operator") continue;
    const config: Omit<Config, "webhooks"> & Partial<Config> =
      command === "webhooks"
        ? loadConfig(readWebhooks, { ...mounted(service), reader: "gateway" })
        : loadConfig(readPostern, { ...mounted(service), reader: command as "producer" | "runner" });
    const { postern, webhooks, warnings } = config;
    expect([name, warnings, postern.redis.durability]).toEqual([name, [], "strict"]);
    expect(postern.redis.url?.reveal()).toBe("redis://redis:6379");
    const own = command === "runner" ? "redis://runner-redis:6379" : "redis://redis:6379"; // only the runner reads of its own
    expect([toRunnerRedis(postern).url?.reveal(), toRunnerRedis(postern).durability]).toEqual([
      own,
      "strict",
    ]);
    expect(postern.runner.url).toBe("http://runner:8645");
    expect(webhooks?.bind_address).toBe(command === "webhooks" ? "0.0.0.0:9090" : undefined);
  }
});

test("compose's console has a token and knows no other secret, and only this machine reaches it", () => {
  const service = services["operator"] as Service;
  const { dir, env } = mounted(service);
  expect(Object.keys(env)).toEqual(["POSTERN_OPERATOR_TOKEN"]);
  const { postern, operator } = loadConfig(readOperator, { dir, env, reader: "operator" });
  expect(postern.redis.url?.reveal()).toBe("redis://redis:6379");
  expect(operator.tokens.map(({ name, role }) => [name, role])).toEqual([["operator", "operator"]]);
  expect([operator.bind_address, service.ports]).toEqual(["0.0.0.0:9300", ["127.0.0.1:9300:9300"]]);
});

test("each process in compose knows the secrets that it needs, and no other", () => {
  const known = ours.map(([name, { environment = {} }]) => [name, Object.keys(environment).sort()]);
  const senders = ["POSTERN_ALERTS_TOKEN", "POSTERN_GITHUB_SECRET"];
  expect(Object.fromEntries(known)).toEqual({
    "webhooks-1": senders,
    "webhooks-2": senders,
    "producer-1": ["POSTERN_RUNNER_SECRET"],
    "producer-2": ["POSTERN_RUNNER_SECRET"],
    runner: ["POSTERN_RUNNER_SECRET"],
    operator: ["POSTERN_OPERATOR_TOKEN"],
  });
});

test("compose's gateways trust the address that nginx has, which no other container can get", () => {
  const gateway = mounted(services["webhooks-1"] as Service);
  const { postern } = loadConfig(readWebhooks, { ...gateway, reader: "gateway" });
  const attached = services["nginx"]?.networks as { default: { ipv4_address: string } };
  expect(postern.http.trusted_proxies).toEqual([attached.default.ipv4_address]);
  const [{ subnet, ip_range }] = compose.networks.default.ipam.config as [Record<string, string>];
  const isIn = (range = "") => createAddressList([range]).matches(attached.default.ipv4_address);
  expect([isIn(subnet), isIn(ip_range)]).toEqual([true, false]);
});

test("no secret in compose has a default, so that compose does not start without each of them", () => {
  for (const [name, { environment = {} }] of ours) {
    const secrets = Object.entries(environment).filter(([key]) => /SECRET|TOKEN/.test(key));
    expect(secrets.length, name).toBeGreaterThan(0);
    for (const [key, value] of secrets) expect([name, value.startsWith(`\${${key}:?`)]).toEqual([name, true]);
  }
});

test("both of compose's Redis have the durability settings of a private one, which strict accepts, and a maxmemory", async () => {
  for (const file of ["redis.conf", "runner-redis.conf"]) {
    const conf = read(`config/docker/${file}`);
    for (const name of ["appendonly", "appendfsync", "maxmemory-policy", "save"]) {
      const configured = new RegExp(`^${name} (.*)$`, "m").exec(conf)?.[1];
      expect([name, configured?.replace('""', "")]).toEqual(await redis.client.config("GET", name));
    }
    expect(conf).toMatch(/^maxmemory \d+[mg]b$/m);
  }
});

test("each Redis of compose keeps its data in a volume of its own and is reached from its inner network only", () => {
  for (const [name, network] of [
    ["redis", "queue"],
    ["runner-redis", "runner"],
  ] as const) {
    const redis = services[name];
    expect(redis?.volumes).toContain(`./config/docker/${name}.conf:/usr/local/etc/redis/redis.conf:ro`);
    expect(redis?.volumes).toContain(`${name}-data:/data`);
    expect(redis?.ports).toBeUndefined();
    expect(redis?.networks).toEqual([network]);
  }
  const { networks, volumes } = compose as { networks?: unknown; volumes?: object };
  expect(networks).toMatchObject({ queue: { internal: true }, runner: { internal: true } });
  expect(Object.keys(volumes ?? {})).toEqual(["redis-data", "runner-redis-data"]);
});

test("compose's runner cannot reach the queue, and nothing but the runner reaches what it remembers", () => {
  const reaching = (network: string) =>
    Object.entries(services).flatMap(([name, { networks = [] }]) => {
      const names = Array.isArray(networks) ? networks : Object.keys(networks);
      return names.includes(network) ? name : [];
    });
  expect(reaching("runner").sort()).toEqual(["runner", "runner-redis"]);
  expect(reaching("queue")).not.toContain("runner");
});

test("the image does not run as root", () => {
  expect(finalStage.filter((line) => line.startsWith("USER "))).toEqual(["USER node"]);
});

test("no process of ours in compose can write to its files, gain privileges or use a capability", () => {
  for (const [name, { read_only, security_opt, cap_drop, tmpfs }] of ours) {
    expect([name, read_only, security_opt, cap_drop, tmpfs]).toEqual([
      ...[name, true],
      ...[["no-new-privileges:true"], ["ALL"], undefined],
    ]);
  }
});

test("every container of compose has a health check, and what depends on it waits for it", () => {
  expect(finalStage.some((line) => line.startsWith("HEALTHCHECK "))).toBe(true);
  for (const [name, { build, healthcheck, depends_on = {} }] of Object.entries(services)) {
    expect(build !== undefined || healthcheck !== undefined, name).toBe(true);
    for (const { condition } of Object.values(depends_on)) expect(condition, name).toBe("service_healthy");
  }
});

test("the image starts the program, and the build is given every file it copies", () => {
  const entry = JSON.parse(/^ENTRYPOINT (.*)$/m.exec(finalStage.join("\n"))?.[1] ?? "[]") as string[];
  expect(existsSync(join(root, entry.at(-1) ?? ""))).toBe(true);
  const ignore = read(".dockerignore").split("\n");
  const copied = dockerfile.filter((line) => line.startsWith("COPY ") && !line.includes("--from="));
  for (const source of copied.flatMap((line) => line.split(" ").slice(1, -1))) {
    expect(existsSync(join(root, source)), source).toBe(true);
    expect(ignore, source).toContain(`!${source.startsWith("services/") ? "services" : source}`);
  }
});

/** A directory with the files that a process sees, and secrets for its environment. */
function mounted({ volumes, environment = {} }: Service) {
  const dir = tempDir();
  for (const [from = "", to = ""] of volumes.map((volume) => volume.split(":"))) {
    expect(dirname(to)).toBe("/etc/postern");
    copyFileSync(join(root, from), join(dir, basename(to)));
  }
  const env = Object.fromEntries(Object.keys(environment).map((key) => [key, `${key}-of-at-least-16-bytes`]));
  return { dir, env };
}
