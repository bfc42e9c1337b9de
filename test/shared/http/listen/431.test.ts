import { expect, test } from "vitest";
import { sendRaw } from "../../../support/http.ts";
import { echo, useServers } from "./servers.ts";

const servers = useServers();

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
