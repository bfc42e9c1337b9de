import { describe } from "vitest";
import { useCluster } from "../../fixtures/redis-topology.ts";
import { testFailovers } from "./rounds.ts";

describe("with a Cluster and durability replicated", () => testFailovers(useCluster(), 1));

describe("with four partitions on a Cluster and durability replicated", () =>
  testFailovers(useCluster(), 1, 4));
