import { spawnSync } from "node:child_process";
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { parse } from "yaml";
import { createAddressList } from "../../shared/http/ip/address-list.ts";
import { aclRules, type RightsOf } from "../../shared/redis/acl-rights.ts";
import { LOADS } from "../docs/loads.ts";
import { useRedis } from "../fixtures/redis.ts";
import { runHere } from "../services/cli/run-here.ts";
import { needs, pathOf } from "../support/needs.ts";
import { tempDir } from "../support/temp-dir.ts";
import {
  CONFIG,
  compose,
  composeText,
  environmentOf,
  filledConfig,
  ours,
  read,
  root,
  SECRET,
  type Service,
  services,
} from "./compose.ts";

const redis = useRedis();

const dockerfile = read("Dockerfile").replaceAll("\\\n", " ").split("\n");
const finalStage = dockerfile.slice(dockerfile.findLastIndex((line) => line.startsWith("FROM ")));

test("compose runs a Redis, two gateways behind nginx, two producers, a console, and a runner with its own Redis; profiles add the rest", () => {
  const roles = Object.entries(services).map(
    ([name, { command, profiles = [] }]) => `${[name, ...profiles].join(", ")}: ${command?.[0] ?? "its own"}`,
  );
  expect(roles.sort()).toEqual([
    "grafana, monitoring: its own",
    "nginx: its own",
    "operator: operator",
    "producer-1: producer",
    "producer-2: producer",
    "prometheus, monitoring: its own",
    "redis: redis-server",
    "runner-redis: redis-server",
    "runner: runner",
    "webhooks-1: webhooks",
    "webhooks-2: webhooks",
    "x402-1, x402: x402",
    "x402-2, x402: x402",
  ]);
});

test("every file that compose mounts exists", () => {
  const sources = Object.values(services).flatMap(({ volumes }) =>
    volumes.map((volume) => volume.split(":")[0] ?? ""),
  );
  const files = sources.filter((source) => source.startsWith("./"));
  expect(files).toHaveLength(16);
  expect(files.filter((file) => !existsSync(join(root, file)))).toEqual([]);
});

test("compose gives each of our processes an existing command with valid options", async () => {
  for (const [name, { command = [] }] of ours) {
    const [subcommand = "", ...rest] = command;
    const help = await runHere([subcommand, "--help"]);
    expect([help.code ?? 0, help.stderr], name).toEqual([0, ""]);
    expect(help.stdout, name).toContain(`Usage: postern ${subcommand} `);
    for (const option of rest.filter((word) => word.startsWith("--"))) {
      expect(help.stdout, name).toContain(option);
    }
  }
});

test("compose gives each process a valid configuration with its own files and secrets, once x402.toml is filled in", () => {
  for (const [name, service] of ours) {
    const [command = ""] = service.command ?? [];
    expect(service.volumes).toEqual(["./config/docker/postern:/etc/postern:ro"]);
    const { postern, warnings } = LOADS[command]!(filledConfig(), environmentOf(service));
    const server = command === "runner" ? "runner-redis" : "redis"; // the runner's memory has its own Redis, and uses no space of the queue
    const url = `redis://${command}:${SECRET}@${server}:6379`;
    // Compose publishes the port only to this machine, but the console cannot know that, so it warns.
    const expected = command === "operator" ? [expect.stringContaining("bind_address: tokens")] : [];
    expect([name, warnings, postern.redis.url?.reveal()]).toEqual([name, expected, url]);
    expect([postern.redis.durability, postern.runner.url, postern.ops_address]).toEqual([
      ...["strict", "http://runner:8645", "0.0.0.0:9091"],
    ]);
  }
});

test("`postern config check` accepts compose's files once x402.toml is filled in, and names the values that an operator must fill in", async () => {
  const env = Object.assign({}, ...ours.map(([, service]) => environmentOf(service))) as Record<
    string,
    string
  >;
  const check = (configDir: string) => runHere(["config", "check", "--config-dir", configDir], env);
  expect(await check(filledConfig())).toMatchObject({ code: 0 });
  const { code, stderr } = await check(join(root, CONFIG));
  expect([code, stderr.trim().split("\n")]).toEqual([3, [expect.stringMatching(/x402\.toml.*pay_to/)]]);
});

test("compose's console, Prometheus and Grafana can be reached only from this machine", () => {
  const ports = Object.entries(services).flatMap(([name, { ports = [] }]) =>
    name === "nginx" ? [] : ports.map((port) => `${name} ${port}`),
  );
  expect(ports).toEqual([
    "operator 127.0.0.1:9300:9300",
    "prometheus 127.0.0.1:9090:9090",
    "grafana 127.0.0.1:3000:3000",
  ]);
});

test("each process in compose has exactly the secrets that it needs", () => {
  const known = ours.map(([name, { environment = {} }]) => [name, Object.keys(environment).sort()]);
  const redis = "POSTERN_REDIS_URL";
  const senders = ["POSTERN_ALERTS_TOKEN", "POSTERN_GITHUB_SECRET", redis];
  const sales = ["POSTERN_FACILITATOR_TOKEN", "POSTERN_QUOTE_SECRET", redis, "POSTERN_RPC_URL"];
  expect(Object.fromEntries(known)).toEqual({
    "webhooks-1": senders,
    "webhooks-2": senders,
    "x402-1": sales,
    "x402-2": sales,
    "producer-1": [redis, "POSTERN_RUNNER_SECRET"],
    "producer-2": [redis, "POSTERN_RUNNER_SECRET"],
    runner: [redis, "POSTERN_RUNNER_SECRET"],
    operator: ["POSTERN_OPERATOR_TOKEN", redis, "POSTERN_RPC_URL"],
  });
});

test("each user of compose's Redis has its own password and the rights that `postern redis-acl` prints for its process", async () => {
  const withRights = composeText.replace(
    /^( {6}user )(?!default)(\w+).*$/gm,
    (_, start: string, kind: RightsOf) =>
      `${start}${kind} on >\${POSTERN_REDIS_${kind.toUpperCase()}} ${aclRules(kind)}`,
  );
  await expect(withRights).toMatchFileSnapshot(join(root, "docker-compose.yml"));
  const users = Object.values(compose.configs).map(({ content }) => content.match(/(?<=^user )\w+/gm));
  expect(users).toEqual([
    ["default", "webhooks", "x402", "producer", "operator"],
    ["default", "runner"],
  ]);
  for (const [name, { configs: [users] = [] }] of Object.entries(services)) {
    if (users === undefined) continue;
    expect([name, read(`config/docker/${name}.conf`)]).toEqual([
      name,
      expect.stringContaining(`\naclfile ${users.target}\n`),
    ]);
  }
});

test("the commands at the top of docker-compose.yml write every value that compose requires", () => {
  const commands =
    composeText.match(/^# {3}(for name in[\s\S]*?done) > \.env$/m)?.[1]?.replace(/^#/gm, "") ?? "";
  const { stdout } = spawnSync("sh", ["-c", commands], { encoding: "utf8" });
  const written = [...stdout.matchAll(/^(\w+)=[0-9a-f]{64}$/gm)].map(([, name]) => name);
  const required = [...composeText.matchAll(/\$\{(\w+)[:}]/g)].map(([, name]) => name);
  expect(written.toSorted()).toEqual([...new Set(required)].toSorted());
});

test("compose's gateways trust nginx's address, and no other container can get that address or theirs", () => {
  const { postern } = LOADS["webhooks"]!(filledConfig(), environmentOf(services["webhooks-1"] as Service));
  const addressOf = (name: string) => {
    const { networks } = services[name] as Service & { networks: { default: { ipv4_address: string } } };
    return networks.default.ipv4_address;
  };
  expect(postern.http.trusted_proxies).toEqual([addressOf("nginx")]);
  expect(services["nginx"]?.extra_hosts).toEqual(
    ["x402-1", "x402-2"].map((name) => `${name}:${addressOf(name)}`),
  );
  const [{ subnet, ip_range }] = compose.networks.default.ipam.config as [Record<string, string>];
  const fixed = ["nginx", "webhooks-1", "webhooks-2", "x402-1", "x402-2"].map(addressOf);
  expect(new Set(fixed).size).toBe(5);
  for (const address of fixed) {
    const isIn = (range = "") => createAddressList([range]).matches(address);
    expect([address, isIn(subnet), isIn(ip_range)]).toEqual([address, true, false]);
  }
});

test("no secret in compose has a default, so compose or the process does not start without the secret", () => {
  for (const [name, { environment = {} }] of ours) {
    const secrets = Object.entries(environment);
    expect(secrets.length, name).toBeGreaterThan(0);
    for (const [key, value] of secrets) {
      const required = /^(?:redis:\/\/[a-z0-9]+:)?\$\{POSTERN_\w+:\?see the head of docker-compose\.yml\}/;
      expect([name, key, value === null || required.test(value)]).toEqual([name, key, true]);
    }
  }
});

test("both Redis servers of compose have the durability settings of a private one, which strict accepts, and a maxmemory", async () => {
  for (const file of ["redis.conf", "runner-redis.conf"]) {
    const conf = read(`config/docker/${file}`);
    for (const name of ["appendonly", "appendfsync", "maxmemory-policy", "save"]) {
      const configured = new RegExp(`^${name} (.*)$`, "m").exec(conf)?.[1];
      expect([name, configured?.replace('""', "")]).toEqual(await redis.client.config("GET", name));
    }
    expect(conf).toMatch(/^maxmemory \d+[mg]b$/m);
  }
});

test("each Redis of compose stores its data in its own volume and can be reached only from its internal network", () => {
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
  const { networks, volumes } = compose;
  expect(networks).toMatchObject({ queue: { internal: true }, runner: { internal: true } });
  expect(Object.keys(volumes)).toEqual([
    ...["redis-data", "runner-redis-data", "prometheus-data", "grafana-data"],
  ]);
});

test("compose's runner cannot reach the queue's Redis, and only the runner can reach its own Redis", () => {
  const reaching = (network: string) =>
    Object.entries(services).flatMap(([name, { networks = [] }]) => {
      const names = Array.isArray(networks) ? networks : Object.keys(networks);
      return names.includes(network) ? name : [];
    });
  expect(reaching("runner").sort()).toEqual(["runner", "runner-redis"]);
  expect(reaching("queue")).not.toContain("runner");
});

test("docs/operations replaces each process of the default profile in the order of docs/upgrade.md", () => {
  const [, names = ""] = /^for name in (.*?); do/m.exec(read("docs/operations/README.md")) ?? [];
  const kinds = ["producer", "webhooks", "operator", "runner"];
  const order = ours
    .filter(([, { profiles }]) => profiles === undefined)
    .map(([name, { command }]) => ({ name, place: kinds.indexOf(String(command?.[0])) }))
    .toSorted((a, b) => a.place - b.place);
  expect(names.split(" ")).toEqual(order.map(({ name }) => name));
});

test("the image does not run as root", () => {
  expect(finalStage.filter((line) => line.startsWith("USER "))).toEqual(["USER node"]);
});

test(
  "compose's Prometheus accepts its configuration with the alerts, and scrapes every process that has metrics",
  needs("promtool"),
  () => {
    const rules = "/etc/prometheus/rules.yml";
    expect(services["prometheus"]?.volumes).toContain(`./docs/operations/prometheus/rules.yml:${rules}:ro`);
    const shipped = read("config/docker/prometheus.yml");
    const file = join(tempDir(), "prometheus.yml");
    writeFileSync(file, shipped.replace(rules, join(root, "docs/operations/prometheus/rules.yml")));
    const { status, stdout, stderr } = spawnSync(pathOf("promtool"), ["check", "config", file], {
      encoding: "utf8",
    });
    expect([status, stderr, stdout]).toEqual([0, "", expect.stringMatching(/SUCCESS: \d+ rules found/)]);
    const [scraped] = (parse(shipped) as { scrape_configs: Scrape[] }).scrape_configs;
    const found = scraped!.dns_sd_configs.flatMap(({ names, port }) =>
      names.map((name) => `${name}:${port}`),
    );
    const targets = [...scraped!.static_configs.flatMap(({ targets }) => targets), ...found];
    const processes = ours.flatMap(([name]) => (name === "runner" ? [] : [`${name}:9091`]));
    expect([scraped!.job_name, targets.toSorted()]).toEqual(["postern", processes.toSorted()]);
  },
);

type Scrape = {
  job_name: string;
  static_configs: { targets: string[] }[];
  dns_sd_configs: { names: string[]; port: number }[];
};

test("compose's Grafana loads Prometheus and the dashboard", () => {
  const mounted = new Map(
    services["grafana"]?.volumes.map((volume) => [volume.split(":")[1], volume.split(":")[0]]),
  );
  const provisioned = (name: string) =>
    parse(read(mounted.get(`/etc/grafana/provisioning/${name}/postern.yml`) ?? "")) as Provisioned;
  expect(provisioned("datasources").datasources).toMatchObject([
    { type: "prometheus", url: "http://prometheus:9090", isDefault: true },
  ]);
  const [
    {
      options: { path },
    },
  ] = provisioned("dashboards").providers;
  expect(mounted.get(`${path}/postern.json`)).toBe("./docs/operations/grafana/dashboard.json");
});

type Provisioned = { datasources: object[]; providers: [{ options: { path: string } }] };

test("every third-party image in compose is pinned to a release", () => {
  const images = Object.values(services).flatMap(({ image, build }) => (build === undefined ? [image] : []));
  for (const image of images) expect(image).toMatch(/:v?\d+\.\d+/);
});

test("none of our processes in compose can write to its files, gain privileges or use a capability", () => {
  for (const [name, { read_only, security_opt, cap_drop, tmpfs }] of ours) {
    expect([name, read_only, security_opt, cap_drop, tmpfs]).toEqual([
      ...[name, true],
      ...[["no-new-privileges:true"], ["ALL"], undefined],
    ]);
  }
});

test("every container of compose has a health check, and dependent containers wait for it", () => {
  expect(finalStage.some((line) => line.startsWith("HEALTHCHECK "))).toBe(true);
  for (const [name, { build, healthcheck, depends_on = {} }] of Object.entries(services)) {
    expect(build !== undefined || healthcheck !== undefined, name).toBe(true);
    for (const { condition } of Object.values(depends_on)) expect(condition, name).toBe("service_healthy");
  }
});

test("the image starts the program, and the build context has every file that the build copies", () => {
  const entry = JSON.parse(/^ENTRYPOINT (.*)$/m.exec(finalStage.join("\n"))?.[1] ?? "[]") as string[];
  expect(existsSync(join(root, entry.at(-1) ?? ""))).toBe(true);
  const ignore = read(".dockerignore").split("\n");
  const copied = dockerfile.filter((line) => line.startsWith("COPY ") && !line.includes("--from="));
  for (const source of copied.flatMap((line) => line.split(" ").slice(1, -1))) {
    expect(existsSync(join(root, source)), source).toBe(true);
    expect(ignore, source).toContain(`!${source.startsWith("services/") ? "services" : source}`);
  }
});
