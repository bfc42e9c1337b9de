import { spawnSync } from "node:child_process";
import { copyFileSync, mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { tempDir } from "../support/temp-dir.ts";
import { blocksOf } from "./blocks.ts";
import { operationsFile } from "./operations.ts";

test("the command of docs/operations/proxies leaves pid, log and temporary files to Debian's nginx, and changes nothing else", () => {
  const dir = tempDir();
  mkdirSync(join(dir, "etc/nginx"), { recursive: true });
  copyFileSync(operationsFile("proxies/nginx.conf"), join(dir, "nginx.conf"));
  const command = blocksOf("docs/operations/proxies/README.md").find(({ text }) => text.includes("sed "));
  const stubs = 'nginx() { echo "nginx $*"; }; systemctl() { echo "systemctl $*"; };';
  const script = `${stubs} ${command?.text.replaceAll("/etc/", `${dir}/etc/`)}`;
  const { stdout, status } = spawnSync("bash", ["-euc", script], { encoding: "utf8", cwd: dir });
  expect([status, stdout]).toEqual([0, "nginx -t\nsystemctl restart nginx\n"]);
  const shipped = linesOf(join(dir, "nginx.conf"));
  const made = linesOf(join(dir, "etc/nginx/nginx.conf"));
  expect(shipped.filter((line) => !made.includes(line)).map((line) => line.trim().split(" ")[0])).toEqual([
    ...["pid", "access_log", "client_body_temp_path", "proxy_temp_path"],
    ...["fastcgi_temp_path", "uwsgi_temp_path", "scgi_temp_path"],
  ]);
  expect(made.filter((line) => !shipped.includes(line))).toEqual([
    "  access_log /var/log/nginx/access.log without_query;",
  ]);
});

function linesOf(file: string): string[] {
  return readFileSync(file, "utf8").split("\n");
}
