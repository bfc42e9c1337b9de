import type { CallLifeView } from "../../../shared/console/calls.ts";

export type { CallLifeView as CallLife, FoundCallView as FoundCall } from "../../../shared/console/calls.ts";

export type LifeStep = CallLifeView["timeline"][number];
