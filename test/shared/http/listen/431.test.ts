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
