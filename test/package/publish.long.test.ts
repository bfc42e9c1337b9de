import { spawn } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { useEnds } from "../fixtures/ends.ts";
import { tempDir } from "../support/temp-dir.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));
const ends = useEnds();

test("npm publish outside a trusted CI fails before it uploads the package, because it cannot create provenance", async () => {
  const requests: string[] = [];
  const registry = createServer(({ method, url }, response) => {
    requests.push(`${method} ${url}`);
    response.writeHead(404, { "Content-Type": "application/json" }).end("{}");
  }).listen(0, "127.0.0.1");
  ends.defer(() => registry.close());
  await once(registry, "listening");
  const place = `//127.0.0.1:${(registry.address() as AddressInfo).port}/`;
  // Environment without the variables that identify a CI.
  const env = { PATH: process.env["PATH"], HOME: tempDir() };
  const args = [
    "publish",
    root,
    "--ignore-scripts",
    "--registry",
    `http:${place}`,
    `--${place}:_authToken=x`,
  ];
  const npm = spawn("npm", args, { cwd: tempDir(), env, stdio: ["ignore", "ignore", "pipe"] });
  ends.defer(() => npm.kill("SIGKILL"));
  let output = "";
  npm.stderr.on("data", (chunk) => {
    output += chunk;
  });
  const [code] = await once(npm, "close");
  expect(output).toContain("Automatic provenance generation not supported");
  expect(code).toBe(1);
  expect(requests.filter((request) => !request.startsWith("GET "))).toEqual([]);
});
