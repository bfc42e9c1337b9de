import { expect, test } from "vitest";
import { usePostern } from "../../../fixtures/postern.ts";
import { useRedis } from "../../../fixtures/redis.ts";
import { sendRaw } from "../../../support/http.ts";
import { echo, useServers } from "./servers.ts";

const servers = useServers();
const redis = useRedis();
const postern = usePostern(() => ({
  postern: { drain_secs: 0, redis: { url: redis.url } },
  webhooks: { endpoints: [{ path: "/a", job_id: 1, auth: "none" }] },
}));

test("a request whose headers are too long is refused with 431, as a problem document", async () => {
  const server = await servers.serve(echo);
  const raw = await sendRaw(
    server.address,
    `POST / HTTP/1.1\r\nHost: x\r\nX-Long: ${"x".repeat(20_000)}\r\n\r\n`,
  );
  expect(raw).toMatch(/^HTTP\/1\.1 431/);
  expect(raw).toContain('"code":"request.headers_too_large"');
  expect(raw).toContain("application/problem+json");
});

test("every header of a request that stays under 16 KiB counts, however many there are", async () => {
  const server = await servers.serve(echo);
  const fillers = "a:\r\n".repeat(3900);
  const raw = await sendRaw(
    server.address,
    `POST / HTTP/1.1\r\nHost: x\r\n${fillers}Connection: close\r\nContent-Length: 4\r\n\r\nbody`,
  );
  expect(raw).toMatch(/^HTTP\/1\.1 200 [\s\S]*\r\n\r\nbody/);
});

test("16 KiB are the bound at a gateway whatever Node's own is", async () => {
  const args = ["webhooks", "--bind-address", "127.0.0.1:0", "--ops-address", "127.0.0.1:0"];
  const gateway = postern.start(args, { env: { NODE_OPTIONS: "--max-http-header-size=65536" } });
  const { address } = await gateway.waitForEvent("service.started");
  const raw = await sendRaw(String(address), `GET / HTTP/1.1\r\nHost: x\r\nX: ${"x".repeat(16_400)}\r\n\r\n`);
  expect(raw).toMatch(/^HTTP\/1\.1 431/);
});
