# The layers, one object library each: base <- kernels <- engine <- actors. A layer sees only the
# folders below it and the public headers; tests/base/layers_test.cc checks the includes.
function(tinyloop_layer name)
  file(GLOB sources CONFIGURE_DEPENDS
       ${PROJECT_SOURCE_DIR}/${name}/*.cc ${PROJECT_SOURCE_DIR}/${name}/cpu/*.cc)
  if(TINYLOOP_CUDA_ENABLED)
    file(GLOB device_sources CONFIGURE_DEPENDS
         ${PROJECT_SOURCE_DIR}/${name}/*.cu
         ${PROJECT_SOURCE_DIR}/${name}/cuda/*.cu ${PROJECT_SOURCE_DIR}/${name}/cuda/*.cc)
    list(APPEND sources ${device_sources})
  endif()
  add_library(tinyloop_${name} OBJECT ${sources})
  target_include_directories(tinyloop_${name} PUBLIC
      ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include)
  target_link_libraries(tinyloop_${name} PRIVATE tinyloop_warnings)
  target_compile_definitions(tinyloop_${name} PUBLIC
      BOOST_ASIO_NO_DEPRECATED $<$<BOOL:${TINYLOOP_CUDA_ENABLED}>:TINYLOOP_WITH_CUDA=1>)
endfunction()

tinyloop_layer(base)
tinyloop_layer(kernels)
tinyloop_layer(engine)
tinyloop_layer(actors)
target_compile_definitions(tinyloop_kernels PRIVATE
    $<$<BOOL:${TINYLOOP_CUDA_SM90A}>:TINYLOOP_CUDA_SM90A=1>)
if(TINYLOOP_CUDA_ENABLED)
  # Shares its arithmetic with the host (kernels/sampling_math.h): no contraction there, none here.
  set_source_files_properties(kernels/sample_cuda.cu PROPERTIES COMPILE_OPTIONS "--fmad=false")
endif()
target_link_libraries(tinyloop_base PUBLIC Boost::headers Threads::Threads)
target_link_libraries(tinyloop_kernels PUBLIC tinyloop_base hwy::hwy)
target_link_libraries(tinyloop_engine PUBLIC tinyloop_kernels PRIVATE ICU::uc nlohmann_json::nlohmann_json)
target_link_libraries(tinyloop_actors PUBLIC tinyloop_engine PRIVATE spdlog::spdlog nlohmann_json::nlohmann_json)

# The library made of the layers, as `name`; ARGN: SHARED, STATIC, or nothing for the project's choice.
function(tinyloop_library name)
  add_library(${name} ${ARGN}
      $<TARGET_OBJECTS:tinyloop_base> $<TARGET_OBJECTS:tinyloop_kernels>
      $<TARGET_OBJECTS:tinyloop_engine> $<TARGET_OBJECTS:tinyloop_actors>)
  # Minor versions of 0.x are not compatible: the same rule as the package's version file.
  set_target_properties(${name} PROPERTIES
      VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}
      LINKER_LANGUAGE CXX)
  target_compile_features(${name} PUBLIC cxx_std_20)
  target_compile_definitions(${name} PUBLIC BOOST_ASIO_NO_DEPRECATED)
  target_include_directories(${name} PUBLIC
      $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_link_libraries(${name}
      PUBLIC Boost::headers Threads::Threads
      PRIVATE hwy::hwy ICU::uc spdlog::spdlog
              $<BUILD_INTERFACE:nlohmann_json::nlohmann_json>)
  if(TINYLOOP_CUDA_ENABLED)
    target_link_libraries(${name} PRIVATE CUDA::cudart_static)
  endif()
  get_target_property(kind ${name} TYPE)
  if(kind STREQUAL "SHARED_LIBRARY")
    set(exports ${PROJECT_SOURCE_DIR}/cmake/exports.map)
    target_link_options(${name} PRIVATE "LINKER:--version-script=${exports}")
    set_property(TARGET ${name} APPEND PROPERTY LINK_DEPENDS ${exports})
  endif()
endfunction()

tinyloop_library(tinyloop)
add_library(tinyloop::tinyloop ALIAS tinyloop)
if(TINYLOOP_CUDA_ENABLED)
  target_link_libraries(tinyloop_kernels PUBLIC CUDA::cudart_static)
endif()
