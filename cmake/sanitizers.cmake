if(TRUNKLINE_SANITIZE)
  add_compile_options(-fsanitize=${TRUNKLINE_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${TRUNKLINE_SANITIZE})
endif()
