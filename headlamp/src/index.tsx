/** Registers the list and page of TASPolicies, the sections on pages of nodes and pods, and the settings. */
import {
  DetailsViewSectionProps,
  K8s,
  registerDetailsViewSection,
  registerPluginSettings,
  registerRoute,
  registerSidebarEntry,
} from '@kinvolk/headlamp-plugin/lib';
import { NodeSection } from './node';
import { POLICY_ROUTE } from './parts';
import { concernsPlimsoll, PodSection } from './pod';
import { POLICIES_ROUTE, PolicyDetails, PolicyList } from './policies';
import { PLUGIN, Settings } from './settings';

registerSidebarEntry({
  parent: 'cluster',
  name: POLICIES_ROUTE,
  label: 'TAS policies',
  url: '/plimsoll/policies',
});

registerRoute({
  path: '/plimsoll/policies',
  name: POLICIES_ROUTE,
  sidebar: POLICIES_ROUTE,
  exact: true,
  component: PolicyList,
});

registerRoute({
  path: '/plimsoll/policies/:namespace/:name',
  name: POLICY_ROUTE,
  sidebar: POLICIES_ROUTE,
  exact: true,
  component: PolicyDetails,
});

// Headlamp draws sections also while it loads the object.
registerDetailsViewSection(
  ({ resource }: { resource: DetailsViewSectionProps['resource'] | null }) => {
    if (!resource) {
      return null;
    }
    if (K8s.ResourceClasses.Node.isClassOf(resource)) {
      return <NodeSection resource={resource} />;
    }
    if (K8s.ResourceClasses.Pod.isClassOf(resource) && concernsPlimsoll(resource.jsonData)) {
      return <PodSection resource={resource} />;
    }
    return null;
  }
);

registerPluginSettings(PLUGIN, Settings, true);
