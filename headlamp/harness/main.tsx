/**
 * Headlamp's pages around the built plugin: its store, routes, sidebar and loader of plugins, as the package for plugins
 * has them. What it lacks is laid out here: the frame of the page. vite.config.mjs answers in place of Headlamp's server.
 */
// First, since its modules import one another in circles.
import '@kinvolk/headlamp-plugin/lib';
import { useCurrentAppTheme } from '@kinvolk/headlamp-plugin/lib/components/App/themeSlice';
import RouteSwitcher, {
  PreviousRouteProvider,
} from '@kinvolk/headlamp-plugin/lib/components/App/RouteSwitcher';
import Sidebar from '@kinvolk/headlamp-plugin/lib/components/Sidebar/Sidebar';
import i18n from '@kinvolk/headlamp-plugin/lib/i18n/config';
import * as ApiProxy from '@kinvolk/headlamp-plugin/lib/lib/k8s/apiProxy';
import { queryClient } from '@kinvolk/headlamp-plugin/lib/lib/queryClient';
import { setStore } from '@kinvolk/headlamp-plugin/lib/lib/router/createRouteURL';
import { createMuiTheme } from '@kinvolk/headlamp-plugin/lib/lib/themes';
import Plugins from '@kinvolk/headlamp-plugin/lib/plugin/Plugins';
import { setConfig } from '@kinvolk/headlamp-plugin/lib/redux/configSlice';
import { useTypedSelector } from '@kinvolk/headlamp-plugin/lib/redux/hooks';
import store from '@kinvolk/headlamp-plugin/lib/redux/stores/store';
import Box from '@mui/material/Box';
import CssBaseline from '@mui/material/CssBaseline';
import { ThemeProvider } from '@mui/material/styles';
import { QueryClientProvider } from '@tanstack/react-query';
import { SnackbarProvider } from 'notistack';
import { createRoot } from 'react-dom/client';
import { I18nextProvider } from 'react-i18next';
import { Provider } from 'react-redux';
import { BrowserRouter } from 'react-router-dom';

function Frame() {
  const loaded = useTypedSelector(state => state.plugins.loaded);
  const theme = useCurrentAppTheme();
  return (
    <ThemeProvider theme={createMuiTheme(theme)}>
      <CssBaseline />
      <Plugins />
      {loaded && (
        <Box sx={{ display: 'flex' }}>
          <Sidebar />
          <Box component="main" sx={{ flexGrow: 1, p: 2, minWidth: 0 }}>
            <RouteSwitcher requiresToken={() => false} />
          </Box>
        </Box>
      )}
    </ThemeProvider>
  );
}

async function start() {
  const config = await ApiProxy.request('/config', {}, false, false);
  const clusters = config.clusters.map((one: { name: string }) => [one.name, one]);
  setStore(store);
  store.dispatch(setConfig({ ...config, clusters: Object.fromEntries(clusters) }));
  createRoot(document.getElementById('root')!).render(
    <Provider store={store}>
      <QueryClientProvider client={queryClient}>
        <I18nextProvider i18n={i18n}>
          <SnackbarProvider>
            <BrowserRouter>
              <PreviousRouteProvider>
                <Frame />
              </PreviousRouteProvider>
            </BrowserRouter>
          </SnackbarProvider>
        </I18nextProvider>
      </QueryClientProvider>
    </Provider>
  );
}

start();
