import type { Setup } from "./setup.ts";
import type { WorldOptions } from "./world.ts";

type InWorld<World> = <Result>(
  nodeArgs: readonly string[],
  measure: (world: World) => Promise<Result>,
  options?: WorldOptions,
) => Promise<Result>;

type Starts<World, Side> = {
  program(world: World): Promise<Side>;
  /** Starts the hand-written baseline in the same world as the program. */
  baseline(world: World, program: Side): Promise<Side>;
};

/**
 * Starts both sides of a comparison, Postern and its baseline, and runs `measure` with them. Both use one world, with one
 * Redis. With `against`, the baseline is Postern in the build of that clone. It gets a separate world, because another build
 * may store its data in Redis in another layout.
 */
export function withBothSides<World, Side, Result>(
  inWorld: InWorld<World>,
  { nodeArgs, against }: Pick<Setup, "nodeArgs" | "against">,
  { program, baseline }: Starts<World, Side>,
  measure: (sides: { ours: Side; baseline: Side }) => Promise<Result>,
): Promise<Result> {
  return inWorld(nodeArgs, async (world) => {
    const ours = await program(world);
    if (against === undefined) return measure({ ours, baseline: await baseline(world, ours) });
    const withOther = async (other: World) => measure({ ours, baseline: await program(other) });
    return inWorld(nodeArgs, withOther, { clone: against });
  });
}
