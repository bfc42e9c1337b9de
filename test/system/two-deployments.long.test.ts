import { expect, test } from "vitest";
import { usePostern } from "../fixtures/postern.ts";
import { denialsOf, useOwnRedis, usersOf } from "../fixtures/redis.ts";
import { startDeployment } from "./deployment.ts";

/** Each deployment's users may access only its own keys and channels. */
const redis = useOwnRedis([...usersOf("shop"), ...usersOf("shop-2")]);
const postern = usePostern();

test("two deployments with different names on one Redis see none of each other's calls and events", async () => {
  const [shop, other] = [
    await startDeployment(postern, { url: redis.url, name: "shop" }),
    await startDeployment(postern, { url: redis.url, name: "shop-2" }),
  ];
  await Promise.all([shop.isFollowed(0), other.isFollowed(0)]);
  const [ofShop, ofOther] = [await shop.works("of the shop"), await other.works("of the other")];

  expect(await other.find(ofShop)).toBeUndefined();
  expect(await shop.find(ofOther)).toBeUndefined();
  expect(JSON.stringify(shop.lines)).toContain(ofShop);
  expect(JSON.stringify(shop.lines)).not.toContain(ofOther);
  expect(JSON.stringify(other.lines)).not.toContain(ofShop);

  const prefixes = new Set((await redis.client.keys("*")).map((key) => key.slice(0, key.indexOf("}") + 1)));
  expect([...prefixes].sort()).toEqual(["{shop-2-runner}", "{shop-2}", "{shop-runner}", "{shop}"]);
  expect(await denialsOf(redis)).toEqual([]);
});
