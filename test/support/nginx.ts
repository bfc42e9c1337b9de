import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { spawnChild, untilAnswers } from "../../shared/dev/child.ts";
import { freePort } from "../../shared/dev/free-port.ts";
import { canConnect } from "./http.ts";
import { pathOf } from "./needs.ts";

export type Nginx = {
  /** `host:port` */
  readonly address: string;
  stop(): Promise<void>;
  /** Its newest lines, to be shown with a failure. */
  tail(): string;
};

/** Runs compose's own nginx.conf in front of these gateways. */
export function startNginx(gateways: readonly string[]): Promise<Nginx> {
  return start((dir, port) => adapted(dir, port, gateways));
}

/** Runs an nginx that passes every request on to one server. `lines` are added to its default settings. */
export function startProxy(server: string, lines: string): Promise<Nginx> {
  return start((dir, port) => {
    const temp = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map(
      (name) => `${name}_temp_path ${dir}/${name};`,
    );
    const location = `location / { proxy_pass http://${server}; ${lines} }`;
    const http = `${temp.join(" ")} access_log off; server { listen 127.0.0.1:${port}; ${location} }`;
    return `pid ${dir}/nginx.pid; error_log stderr; events {} http { ${http} }`;
  });
}

type Configure = (dir: string, port: number) => string;

async function start(configure: Configure): Promise<Nginx> {
  const dir = mkdtempSync(join(tmpdir(), "postern-nginx-"));
  const port = await freePort();
  writeFileSync(join(dir, "nginx.conf"), configure(dir, port));
  const asThisUser = process.getuid?.() === 0 ? "user root;" : "";
  const args = ["-p", dir, "-c", join(dir, "nginx.conf"), "-e", "stderr", "-g", `daemon off; ${asThisUser}`];
  const child = spawnChild({ command: pathOf("nginx"), args, env: process.env });
  await untilAnswers("nginx", child, () => canConnect(port));
  return {
    address: `127.0.0.1:${port}`,
    async stop() {
      await child.kill("SIGTERM");
      rmSync(dir, { recursive: true, force: true });
    },
    tail: child.tail,
  };
}

function adapted(dir: string, port: number, gateways: readonly string[]): string {
  const shipped = readFileSync(new URL("../../config/docker/nginx.conf", import.meta.url), "utf8");
  const swaps: [RegExp, string][] = [
    [/ \/tmp\//g, ` ${dir}/`],
    [/access_log .*;/, "access_log off;"],
    [/listen 8080;/, `listen 127.0.0.1:${port};`],
    ...gateways.map((address, i): [RegExp, string] => [
      new RegExp(`server webhooks-${i + 1}:9090`),
      `server ${address}`,
    ]),
  ];
  return swaps.reduce((text, [from, to]) => {
    if (!from.test(text)) throw new Error(`config/docker/nginx.conf has no ${from}`);
    from.lastIndex = 0;
    return text.replace(from, to);
  }, shipped);
}
