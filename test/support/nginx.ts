import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { findProgram, installPackage } from "../../shared/child-process/find-program.ts";
import { type Child, spawnChild } from "../../shared/child-process/spawn-child.ts";
import { eventually } from "./eventually.ts";
import { canConnect } from "./http.ts";

/** Debian keeps it where only root's PATH looks. */
const env = { ...process.env, PATH: `${process.env["PATH"] ?? ""}:/usr/sbin:/usr/local/sbin` };

export function installNginx(): void {
  if (findProgram(["nginx"], env) === undefined) installPackage("nginx-light", env);
}

/** The path of nginx; undefined where there is none, so that a test can be skipped with a word, but never under CI=true. */
export function findNginx(): string | undefined {
  const path = findProgram(["nginx"], env);
  if (path === undefined && process.env["CI"] === "true")
    throw new Error("CI needs nginx: apt-get install nginx");
  if (path === undefined) console.warn("nginx is not installed and could not be: its tests are skipped");
  return path;
}

export type Nginx = { child: Child; stop(): Promise<void> };

/** Runs nginx in the foreground with this configuration (which must name `listen 127.0.0.1:<port>`). */
export async function startNginx(program: string, port: number, config: string): Promise<Nginx> {
  const dir = mkdtempSync(join(tmpdir(), "postern-nginx-"));
  writeFileSync(join(dir, "nginx.conf"), config);
  const args = ["-p", dir, "-c", join(dir, "nginx.conf"), "-e", "stderr", "-g", "daemon off;"];
  const child = spawnChild({ command: program, args, env });
  await eventually(`nginx listens\n${child.tail()}`, () => canConnect(port));
  return {
    child,
    async stop() {
      await child.kill("SIGTERM");
      rmSync(dir, { recursive: true, force: true });
    },
  };
}
