import { createHmac } from "node:crypto";
import { expect, test } from "vitest";
import { CLOCK_CHANGE_MS } from "../../../../shared/platform/time/clock.ts";
import { refusalOf, type TestOperator, TOKENS, TWO_TOKENS, useOperator } from "../../../fixtures/console.ts";
import { keys } from "../../../fixtures/redis.ts";

const fixture = useOperator();

async function cookieOf({ post }: TestOperator, token: string = TOKENS.viewer): Promise<string> {
  const began = await post("/session", { token }, { as: "nobody" });
  return String(began.headers["set-cookie"]).split(";")[0] ?? "";
}

const identify = ({ get }: TestOperator, Cookie: string) =>
  get("/session", { as: "nobody", headers: { Cookie } });

test("scripts and other sites cannot use a session's cookie, and over https it is bound to this host", async () => {
  const plain = await fixture.start();
  const began = await plain.post("/session", { token: TOKENS.viewer }, { as: "nobody" });
  expect(began.headers["set-cookie"]).toEqual([
    expect.stringMatching(/^postern=\S+; Max-Age=14400; Path=\/; HttpOnly; SameSite=Strict$/),
  ]);
  const secure = await fixture.start({ operator: { public_url: "https://ops.example.com" } });
  const beganSecurely = await secure.post("/session", { token: TOKENS.viewer }, { as: "nobody" });
  expect(beganSecurely.headers["set-cookie"]).toEqual([
    expect.stringMatching(/^__Host-postern=\S+; Max-Age=14400; Path=\/; HttpOnly; SameSite=Strict; Secure$/),
  ]);
});

test("any replica with the same tokens accepts a session until it ends", async () => {
  let now = 1_800_000_000_000;
  const clock = () => now;
  const [one, other] = [await fixture.start({ clock }), await fixture.start({ clock })];
  const cookie = await cookieOf(one);
  expect((await identify(other, cookie)).json()).toEqual({
    ...{ name: "vera", role: "viewer", ends_at: new Date(now + 14_400_000).toISOString() },
  });
  now += 14_400_000;
  expect(refusalOf(await identify(other, cookie))).toEqual([401, "operator.unauthorized"]);
});

test("replicas that start their first sessions at the same time accept each other's", async () => {
  await fixture.redis.client.del(keys.sessionSalt);
  const replicas = [await fixture.start(), await fixture.start()];
  const [of = "", ofOther = ""] = await Promise.all(replicas.map((each) => cookieOf(each)));
  for (const replica of replicas)
    for (const cookie of [of, ofOther]) expect((await identify(replica, cookie)).status).toBe(200);
});

test("a session that was ended is refused at every replica, and its note in Redis expires soon after its regular end", async () => {
  const [one, other] = [await fixture.start(), await fixture.start()];
  const [cookie, another] = [await cookieOf(one), await cookieOf(one)];
  const ended = await one.ask("DELETE", "/session", { as: "nobody", headers: { Cookie: cookie } });
  expect([ended.status, ended.headers["set-cookie"]]).toEqual([
    204,
    ["postern=; Max-Age=0; Path=/; HttpOnly; SameSite=Strict"],
  ]);
  expect((await identify(other, cookie)).status).toBe(401);
  expect((await identify(other, another)).status).toBe(200);
  const [left = ""] = await fixture.redis.client.keys(keys.endedSession("*"));
  expect(await fixture.redis.client.pttl(left)).toBeLessThanOrEqual(14_400_000 + CLOCK_CHANGE_MS);
});

test("a session ends when its token is removed, and has the token's current role", async () => {
  const cookie = await cookieOf(await fixture.start(), TOKENS.operator);
  const demoted = [{ ...TWO_TOKENS[1], role: "viewer" }];
  const viewer = await fixture.start({ operator: { tokens: demoted } });
  expect((await identify(viewer, cookie)).json()).toMatchObject({ name: "otto", role: "viewer" });
  const gone = await fixture.start({ operator: { tokens: [TWO_TOKENS[0]] } });
  expect((await identify(gone, cookie)).status).toBe(401);
});

test("no session is valid for longer than the configuration says, even if the owner of a token signed it", async () => {
  let now = 1_800_000_000_000;
  const earlier = await fixture.start({ clock: () => now, operator: { session_secs: 86_400 } });
  const cookie = await cookieOf(earlier);
  const service = await fixture.start({ clock: () => now });
  expect((await identify(service, cookie)).status).toBe(401);
  now += 72_000_000;
  expect((await identify(service, cookie)).status).toBe(200);
});

function changed(text: string, at: number): string {
  return `${text.slice(0, at)}${text[at] === "A" ? "B" : "A"}${text.slice(at + 1)}`;
}

test("a changed cookie is no session, and a valid one beside it is found", async () => {
  const service = await fixture.start();
  const cookie = await cookieOf(service);
  const [name = "", until = "", id = "", mac = ""] = cookie.split(/[=.]/);
  const later = `${Number(until) + 1}`;
  const forged = [
    `${name}=${later}.${id}.${mac}`,
    `${name}=${until}.${"A".repeat(22)}.${mac}`,
    `${name}=${until}.${id}.${"A".repeat(43)}`,
    `${name}=${until}.${id}.${changed(mac, 40)}`,
    `${name}=${until}.${id}`,
    `${name}=`,
    `other=${until}.${id}.${mac}`,
  ];
  for (const each of forged) expect([each, (await identify(service, each)).status]).toEqual([each, 401]);
  expect((await identify(service, `${forged[2]}; theme=dark; ${cookie}`)).status).toBe(200);
});

test("a cookie cannot be used to test a guessed token, because only signed-in clients know the salt", async () => {
  const service = await fixture.start();
  const cookie = await cookieOf(service);
  const [, until = "", id = "", mac = ""] = cookie.split(/[=.]/);
  const salt = (await fixture.redis.client.get(keys.sessionSalt)) ?? "";
  const sign = (salted: string, token: string) =>
    createHmac("sha256", token)
      .update(`postern operator session v1 ${salted}${until}.${id}`)
      .digest("base64url");
  for (const salted of ["", " ", `${"A".repeat(43)} `])
    for (const token of Object.values(TOKENS))
      expect((await identify(service, `postern=${until}.${id}.${sign(salted, token)}`)).status).toBe(401);
  // Only with the salt, which is in Redis, can such a cookie be signed.
  expect(sign(`${salt} `, TOKENS.viewer)).toBe(mac);
  await fixture.redis.client.del(keys.sessionSalt);
  const other = await fixture.start();
  for (const salted of ["", " ", "null ", `${salt} `])
    expect((await identify(other, `postern=${until}.${id}.${sign(salted, TOKENS.viewer)}`)).status).toBe(401);
});
