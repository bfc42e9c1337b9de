import { once } from "node:events";
import { createServer } from "node:net";
import { expect, test } from "vitest";
import { freePort } from "../../../shared/dev/free-port.ts";

test("a free port can be listened on", async () => {
  const port = await freePort();
  const server = createServer().listen(port, "127.0.0.1");
  await once(server, "listening");
  expect(server.address()).toMatchObject({ port });
  server.close();
});

test("no port is given twice, also if nothing listens there yet", async () => {
  const ports = new Set<number>();
  for (let i = 0; i < 300; i++) ports.add(await freePort());
  expect(ports.size).toBe(300);
});
