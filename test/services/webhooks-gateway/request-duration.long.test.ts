import { expect, test } from "vitest";
import { eventually } from "../../../shared/dev/wait.ts";
import { usePostern } from "../../fixtures/postern.ts";
import { useRedis } from "../../fixtures/redis.ts";
import { send } from "../../support/http.ts";

const redis = useRedis();
const postern = usePostern(() => ({
  postern: { drain_secs: 0, redis: { url: redis.url } },
  webhooks: { endpoints: [{ path: "/hooks/open", job_id: 1, auth: "none" }] },
}));

test("request durations have the method, status and route as labels, and no label that a client can choose", async () => {
  const anyPort = ["--bind-address", "127.0.0.1:0", "--ops-address", "127.0.0.1:0"];
  const gateway = postern.start(["webhooks", ...anyPort]);
  const { address, opsAddress } = await gateway.waitForEvent("service.started");
  const ask = async (method: string, path: string) =>
    (await send(String(address), { method, path, body: "x" })).status;
  expect(await ask("POST", "/hooks/open?secret=1")).toBe(202);
  expect(await ask("PUT", "/hooks/open")).toBe(405);
  expect(await ask("PROPFIND", "/nobody/has/this")).toBe(404);
  expect(await ask("GET", `/webhooks/calls/c_${"0".repeat(32)}/events`)).toBe(404);

  const counts = async () => {
    const { text } = await send(String(opsAddress), { method: "GET", path: "/metrics" });
    return text.match(/^http_server_request_duration_seconds_count.*$/gm)?.sort();
  };
  const labels = (method: string, status: number, route: string) =>
    `http_server_request_duration_seconds_count{http_request_method="${method}",http_response_status_code="${status}",http_route="${route}"} 1`;
  const expected = [
    labels("GET", 404, "/webhooks/calls/{call_id}/events"),
    labels("POST", 202, "/hooks/open"),
    labels("PUT", 405, ""),
    labels("_OTHER", 404, ""),
  ];
  await eventually("all are measured", async () => (await counts())?.length === expected.length);
  expect(await counts()).toEqual(expected);
});
