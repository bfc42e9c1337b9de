import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { spawnChild, waitUntilAnswers } from "../../shared/dev/child.ts";
import { freePort } from "../../shared/dev/free-port.ts";
import { canConnect } from "./http.ts";
import { pathOf } from "./needs.ts";

export type Nginx = {
  /** `host:port` */
  readonly address: string;
  stop(): Promise<void>;
  /** Returns the newest log lines, for the message of a failure. */
  tail(): string;
};

/** Runs the nginx.conf of docker-compose.yml in front of these webhooks gateways and payment gateways. */
export function startNginx(webhooks: readonly string[], x402 = webhooks): Promise<Nginx> {
  return startExample("nginx", webhooks, x402);
}

/** Runs an nginx that forwards every request to one server. `lines` are added to its default settings. */
export function startProxy(server: string, lines: string): Promise<Nginx> {
  const configure = (dir: string, port: number) => {
    const temp = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map(
      (name) => `${name}_temp_path ${dir}/${name};`,
    );
    const location = `location / { proxy_pass http://${server}; ${lines} }`;
    const http = `${temp.join(" ")} access_log off; server { listen 127.0.0.1:${port}; ${location} }`;
    return `pid ${dir}/nginx.pid; error_log stderr; events {} http { ${http} }`;
  };
  return startProxyProgram("nginx", configure, EXAMPLES.nginx.args);
}

type Configure = (dir: string, port: number) => string;

/** Starts a proxy with its own folder, which contains its configuration. */
async function startProxyProgram(
  name: ExampleName,
  configure: Configure,
  argsFor: (dir: string, file: string) => string[],
): Promise<Nginx> {
  const dir = mkdtempSync(join(tmpdir(), "postern-proxy-"));
  const port = await freePort();
  const file = join(dir, "configuration");
  writeFileSync(file, configure(dir, port));
  const env = { ...process.env, HOME: dir };
  const child = spawnChild({ command: pathOf(name), args: argsFor(dir, file), env });
  await waitUntilAnswers(name, child, () => canConnect(port));
  return {
    address: `127.0.0.1:${port}`,
    async stop() {
      await child.kill("SIGTERM");
      rmSync(dir, { recursive: true, force: true });
    },
    tail: child.tail,
  };
}

type Swap = [RegExp, string];

function swapped(path: string, swaps: readonly Swap[]): string {
  const shipped = readFileSync(new URL(`../../${path}`, import.meta.url), "utf8");
  return swaps.reduce((text, [from, to]) => {
    if (!from.test(text)) throw new Error(`${path} has no ${from}`);
    from.lastIndex = 0;
    return text.replace(from, to);
  }, shipped);
}

function nginxSwaps(dir: string, port: number): Swap[] {
  return [
    [/ \/tmp\//g, ` ${dir}/`],
    [/access_log .*;/, "access_log off;"],
    [/listen 8080;/, `listen 127.0.0.1:${port};`],
  ];
}

type Example = {
  file: string;
  swaps: (dir: string, port: number) => Swap[];
  args: (dir: string, file: string) => string[];
};

/** The examples of docs/operations/proxies. */
const EXAMPLES = {
  nginx: {
    file: "nginx.conf",
    swaps: nginxSwaps,
    args: (dir, file) => [
      ...["-p", dir, "-c", file, "-e", "stderr"],
      ...["-g", `daemon off; ${process.getuid?.() === 0 ? "user root;" : ""}`],
    ],
  },
  haproxy: {
    file: "haproxy.cfg",
    swaps: (_, port) => [[/bind :8080/, `bind 127.0.0.1:${port}`]],
    args: (_, file) => ["-db", "-f", file],
  },
  caddy: {
    file: "Caddyfile",
    swaps: (_, port) => [[/^:8080 \{/m, `:${port} {\n\tbind 127.0.0.1`]],
    args: (_, file) => ["run", "--adapter", "caddyfile", "--config", file],
  },
} as const satisfies Record<string, Example>;

type ExampleName = keyof typeof EXAMPLES;
export const EXAMPLE_NAMES = Object.keys(EXAMPLES) as ExampleName[];

/** Runs an example of docs/operations/proxies in front of two webhooks gateways and two payment gateways. */
export function startExample(
  name: ExampleName,
  webhooks: readonly string[],
  x402: readonly string[],
): Promise<Nginx> {
  const { file, swaps, args }: Example = EXAMPLES[name];
  const servers = {
    "webhooks-1:9090": webhooks[0],
    "webhooks-2:9090": webhooks[1],
    "x402-1:8402": x402[0],
    "x402-2:8402": x402[1],
  };
  const places = Object.entries(servers).map(([from, to]): Swap => [new RegExp(from, "g"), String(to)]);
  const configure = (dir: string, port: number) =>
    swapped(`docs/operations/proxies/${file}`, [...swaps(dir, port), ...places]);
  return startProxyProgram(name, configure, args);
}
